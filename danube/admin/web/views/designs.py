"""Operations that have a designed page in place of the fields of their answer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from danube.admin.web.views.brokers import brokers_page
from danube.admin.web.views.groups import groups_page
from danube.admin.web.views.look import Look
from danube.admin.web.views.reports import report_page
from danube.admin.web.views.topics import topic_page, topics_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The page of one operation."""

    template: str
    values: Callable[[Look], Awaitable[dict[str, Any]]]
    """Values for the template beside the answer."""
    calls: bool = True
    """True where the operation is called for it; else the page makes its own calls."""


DESIGNS = {
    "list_topics": Design(template="topics.html", values=topics_page, calls=False),
    "describe_topic": Design(template="topic.html", values=topic_page),
    "analyze_consumer_lag": Design(template="groups.html", values=groups_page),
    "report_analytics": Design(template="report.html", values=report_page),
    "list_brokers": Design(template="brokers.html", values=brokers_page),
}
