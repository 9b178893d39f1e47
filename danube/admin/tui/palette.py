"""The command palette: every operation of the registry, those above the access level with the reason."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.widget import Widget

from danube.admin.operations import REGISTRY
from danube.admin.operations.operation import AnyOperation
from danube.admin.tui.forms import fields_of
from danube.admin.tui.header import refusal
from danube.admin.tui.screens.base_screen import BaseScreen
from danube.admin.tui.screens.form import FormScreen
from danube.admin.tui.widgets.plain import plain
from danube.model.plans.plan import Effect


class OperationCommands(Provider):
    """Every operation there is; choosing one opens its form."""

    async def discover(self) -> Hits:
        for operation, initial in self.operations():
            title, text = self._words(operation)
            yield DiscoveryHit(plain(title), partial(self._open, operation, initial), title, text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        wanted = query.lower().strip()
        for operation, initial in self.operations():
            if wanted in operation.command or wanted in operation.name:
                score = 2.0
            elif wanted in operation.summary.lower():
                score = 1.0
            else:
                score = min(matcher.match(operation.command), 0.9)
            if score > 0:
                title, text = self._words(operation)
                yield Hit(score, plain(title), partial(self._open, operation, initial), title, text)

    def operations(self) -> Iterator[tuple[AnyOperation, Mapping[str, Any]]]:
        """Operations, and what their forms are filled with."""
        yield from ((operation, {}) for operation in REGISTRY)

    def _words(self, operation: AnyOperation) -> tuple[str, str]:
        """Title and help."""
        screen = self.screen
        reason = refusal(screen.app_context.target, operation) if isinstance(screen, BaseScreen) else None
        if reason is None:
            return operation.command, operation.summary
        return f"{operation.command}  (disabled)", f"Disabled: {reason}."

    def _open(self, operation: AnyOperation, initial: Mapping[str, Any]) -> None:
        screen: Widget = self.screen
        if isinstance(screen, BaseScreen):
            self.app.push_screen(FormScreen(screen.app_context, operation, initial))


class SelectionCommands(OperationCommands):
    """The operations that take what the cursor is on, with it filled in."""

    def operations(self) -> Iterator[tuple[AnyOperation, Mapping[str, Any]]]:
        yield from acts_for(self.screen.selection() if isinstance(self.screen, BaseScreen) else {})


def acts_for(selection: Mapping[str, str]) -> list[tuple[AnyOperation, Mapping[str, Any]]]:
    """Operations that take what is selected, and what their forms begin with. Pure.

    Those that take most of it come first, so on a subscription its own; and what destroys comes last of these.
    """
    found: list[tuple[AnyOperation, Mapping[str, Any]]] = []
    for operation in REGISTRY:
        names = {field.completes: field.name for field in reversed(fields_of(operation)) if field.completes}
        initial = {names[kind]: value for kind, value in selection.items() if kind in names}
        if initial:
            found.append((operation, initial))
    effects = list(Effect)
    return sorted(found, key=lambda each: (-len(each[1]), effects.index(each[0].effect)))
