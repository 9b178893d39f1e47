"""Names of the cluster that a field can complete, from what the screens know already."""

from collections.abc import Callable, Sequence

from textual.suggester import Suggester

from danube.admin.broker_names import named
from danube.admin.present import printable
from danube.admin.tui.data.watch import Watch
from danube.model.limits.faces import TUI_SUGGESTIONS_MAX


def names_of(kind: str, watch: Watch, topic: str = "") -> list[str]:
    """The names of a kind, sorted; none of a kind that is not known. Names that do not print are left out.

    The subscriptions are those of `topic`.
    """
    match kind:
        case "topic":
            names = {line.name for line in watch.topics.lines}
        case "namespace":
            names = set(watch.namespaces)
        case "broker":
            names = {named(broker.broker_id) for broker in watch.brokers}
        case "subscription":
            names = watch.lags.subscriptions_of(topic)
        case "plan":
            names = {plan.plan_id for plan in watch.plans if not plan.status.is_over}
        case _:
            names = set()
    return sorted(name for name in names if printable(name) == name)[:TUI_SUGGESTIONS_MAX]


class NameSuggester(Suggester):
    """Offers the first name that begins with what was typed; the right arrow takes it."""

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._names = names

    async def get_suggestion(self, value: str) -> str | None:
        return next((name for name in self._names() if name.startswith(value) and name != value), None)
