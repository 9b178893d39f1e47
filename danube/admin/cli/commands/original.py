"""Commands of the original's `danube-admin` that are an operation under another name, kept for its scripts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """Another command for an operation, which shows a part of what it answers."""

    words: tuple[str, str]
    operation: str
    summary: str
    positional: tuple[str, ...] = ()
    """Parameters that are arguments; the command has no others."""
    only: tuple[str, ...]
    """Fields that are shown: of a row in a listing, of the result elsewhere."""
    shown_as: str = ""
    """What its one fact is called here, where that is another word."""
    is_hidden: bool = True


ALIASES = (
    Alias(
        words=("namespaces", "topics"),
        operation="list_topics",
        summary="List the names of the topics in a namespace.",
        positional=("namespace",),
        only=("name",),
        is_hidden=False,
    ),
    Alias(
        words=("schemas", "get-compatibility"),
        operation="get_schema",
        summary="Show the compatibility mode of a subject.",
        positional=("subject",),
        only=("subject", "compatibility_mode"),
    ),
    Alias(
        words=("brokers", "leader-broker"),
        operation="cluster_status",
        summary="Show the id of the leader.",
        only=("leader_broker",),
        shown_as="Leader",
    ),
    Alias(
        words=("brokers", "namespaces"),
        operation="list_namespaces",
        summary="List the namespaces.",
        only=("name",),
    ),
)
