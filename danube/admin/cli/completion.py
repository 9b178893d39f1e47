"""Names that a shell offers: asked of the broker within a second, and nothing at all when anything goes wrong.

They go through a shell's own expansion, and strangers choose them: only names made of harmless characters are offered.
"""

import asyncio
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import typer

from danube.admin.cli.output.options import flags_from
from danube.admin.gateway import AdminGateway
from danube.admin.target import Connect, Target
from danube.model.limits.faces import CLI_COMPLETION_TIMEOUT_S, CLI_COMPLETIONS_MAX
from danube.model.plans.plan import PlanStatus
from danube.model.topic import TopicName

_HARMLESS = re.compile(r"[\w./-]+", re.ASCII)


def completer(connect: Connect) -> Callable[[str], Callable[..., list[str]]]:
    """Makes the completion of a kind of name."""

    def of_kind(kind: str) -> Callable[..., list[str]]:
        def complete(ctx: typer.Context, incomplete: str) -> list[str]:
            try:
                names = _names(connect, ctx, kind)
            except Exception:  # whatever it was: a shell in the middle of a line has no use for an error
                return []
            return offered(names, incomplete)

        return complete

    return of_kind


def offered(names: Iterable[str], incomplete: str) -> list[str]:
    """Names that begin so and that a shell can be given, sorted."""
    fitting = (name for name in names if name.startswith(incomplete) and _HARMLESS.fullmatch(name))
    return sorted(fitting)[:CLI_COMPLETIONS_MAX]


def _names(connect: Connect, context: typer.Context, kind: str) -> list[str]:
    from danube.admin.profiles import resolve_target  # noqa: PLC0415 - `--help` reads no contexts

    typed = _typed(context)
    target = resolve_target(flags_from(typed), os.environ)
    return asyncio.run(_within_bound(connect, target, kind, typed))


async def _within_bound(connect: Connect, target: Target, kind: str, typed: dict[str, Any]) -> list[str]:
    async with asyncio.timeout(CLI_COMPLETION_TIMEOUT_S), connect(target) as gateway:
        return await _ask(gateway, kind, typed)


async def _ask(gateway: AdminGateway, kind: str, typed: dict[str, Any]) -> list[str]:
    match kind:
        case "namespace":
            return list(await gateway.namespaces())
        case "broker":
            return [info.broker_id for info in await gateway.brokers()]
        case "plan":
            return [plan.plan_id for plan in await gateway.plans() if not _is_over(plan.approval, plan.applied_ms)]
        case "topic":
            return await _topics(gateway, typed.get("namespace"))
        case "subscription" if typed.get("topic"):
            return list(await gateway.subscriptions(_topic(str(typed["topic"]), typed.get("namespace"))))
    return []


async def _topics(gateway: AdminGateway, namespace: str | None) -> list[str]:
    if namespace:
        return [info.topic.local for info in await gateway.topics(namespace.removeprefix("/"))]
    return [str(info.topic) for each in await gateway.namespaces() for info in await gateway.topics(each)]


def _topic(text: str, namespace: str | None) -> TopicName:
    if "/" not in text and namespace:
        text = f"/{namespace.removeprefix('/')}/{text}"
    return TopicName.parse(text if text.startswith("/") else f"/{text}")


def _is_over(approval: str, applied_ms: int | None) -> bool:
    return applied_ms is not None or approval == PlanStatus.REJECTED


def _typed(context: typer.Context) -> dict[str, Any]:
    """Every parameter of the line so far, of all commands on it."""
    found: dict[str, Any] = {}
    chain = [context]
    while chain[-1].parent is not None:
        chain.append(chain[-1].parent)  # type: ignore[arg-type]  # Typer's own class of contexts
    for each in reversed(chain):
        found |= {name: value for name, value in each.params.items() if value is not None}
    # an option that still lacks its value keeps Typer from reading the arguments before it
    left = [word for word in context.args if not word.startswith("-")]
    return {"topic": left[0], **found} if left else found
