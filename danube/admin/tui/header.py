"""Words that every screen shows: which cluster, at which access level, and how old what is shown is. No I/O."""

from danube.admin.access import AccessLevel
from danube.admin.operations.operation import AnyOperation
from danube.admin.present import cell, printable
from danube.admin.target import Target
from danube.admin.tui.data.watch import Watch
from danube.model.text import age_text
from danube.report.tones import tone_of

LEVEL_WORDS = {
    AccessLevel.READ: "read: looks, changes nothing",
    AccessLevel.WRITE: "write: changes and moves, deletes nothing",
    AccessLevel.DESTROY: "destroy: may do everything, deletes too",
}


def place(target: Target) -> str:
    """The cluster: the context's name and the endpoint."""
    return printable(" · ".join(each for each in (target.context, target.endpoint) if each))


def level_text(target: Target) -> str:
    """The access level in words."""
    return f"access {LEVEL_WORDS[target.guard.level]}"


def refusal(target: Target, operation: AnyOperation) -> str | None:
    """The reason why an operation cannot be called at this level; None when it can."""
    if target.guard.level.allows(operation.level):
        return None
    return f"needs access level {operation.level}, this is {target.guard.level}: start with --access {operation.level}"


def status_text(watch: Watch, now_ms: int, *, refresh_s: float, is_paused: bool) -> tuple[str, str]:
    """The line on top of every screen, and its tone: is the cluster well, and how old is what is shown?"""
    if watch.unreachable_since_ms is not None:
        return _unreachable(watch, now_ms), "error"
    if watch.read_ms is None:
        return "connecting ...", "dim"
    pace = "paused, r reads once" if is_paused else f"every {refresh_s:g} s"
    ending = f"read {age_text(now_ms - watch.read_ms)} ago, {pace}"
    if watch.health is None:
        return ending, "dim"
    words, tone = _health(watch)
    return f"{words} · {ending}", tone


def _unreachable(watch: Watch, now_ms: int) -> str:
    since_ms = watch.unreachable_since_ms or now_ms
    shown = "nothing was read yet" if watch.read_ms is None else f"shown is {age_text(now_ms - watch.read_ms)} old"
    moment = cell(since_ms, "since_ms")[11:]
    return (
        f"NOT REACHABLE since {moment} ({age_text(now_ms - since_ms)}) · {shown} · trying again ·"
        f" {printable(watch.unreachable_reason)}"
    )


def _health(watch: Watch) -> tuple[str, str]:
    health = watch.health
    if health is None:
        return "", "dim"
    verdict = health.verdict.value
    troubles = [f"{check.name}: {check.detail}" for check in health.checks if check.status not in {"ok", "unknown"}]
    brokers = next((check.detail for check in health.checks if check.name == "brokers"), "")
    words = printable("; ".join(troubles)) if troubles else f"brokers {printable(brokers)}"
    return f"health {verdict.upper()} · {words}", tone_of(verdict) or "dim"
