"""Names that a shell offers: asked of the broker within a second, and nothing at all when anything goes wrong.

They go through a shell's own expansion, and strangers choose them: only names made of harmless characters are offered.
"""

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer

from danube.admin.broker_names import BROKER
from danube.admin.cli.output.options import flags_from
from danube.admin.completion import names_of
from danube.admin.gateway import AdminGateway
from danube.admin.target import Connect, Target
from danube.model.limits.faces import CLI_COMPLETION_TIMEOUT_S, CLI_COMPLETIONS_MAX
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


def _names(connect: Connect, context: typer.Context, kind: str) -> Sequence[str]:
    from danube.admin.profiles import resolve_target  # noqa: PLC0415 - `--help` reads no contexts

    typed = _typed(context)
    target = resolve_target(flags_from(typed), os.environ)
    return asyncio.run(_within_bound(connect, target, kind, typed))


async def _within_bound(connect: Connect, target: Target, kind: str, typed: dict[str, Any]) -> Sequence[str]:
    async with asyncio.timeout(CLI_COMPLETION_TIMEOUT_S), connect(target) as gateway:
        return await _ask(gateway, kind, typed)


async def _ask(gateway: AdminGateway, kind: str, typed: dict[str, Any]) -> Sequence[str]:
    namespace = str(typed["namespace"]).removeprefix("/") if typed.get("namespace") else None
    topic = _whole_name(str(typed["topic"]), namespace) if typed.get("topic") else None
    if kind == BROKER:
        return [info.broker_id for info in await gateway.brokers()]  # a colon ends a word in shells
    names = await names_of(gateway, kind, namespace=namespace, topic=topic)
    return [TopicName.parse(name).local for name in names] if kind == "topic" and namespace else names


def _whole_name(text: str, namespace: str | None) -> str:
    if "/" not in text and namespace:
        text = f"/{namespace}/{text}"
    return text if text.startswith("/") else f"/{text}"


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
