"""The command palette: every operation of the registry, those above the access level with the reason."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation in the palette."""

    operation: AnyOperation
    initial: Mapping[str, Any]
    title: str
    help: str


class OperationCommands(Provider):
    """Every operation there is; choosing one opens its form."""

    async def discover(self) -> Hits:
        for entry in self.entries():
            yield DiscoveryHit(plain(entry.title), partial(self._open, entry), entry.title, entry.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        wanted = query.lower().strip()
        for entry in self.entries():
            operation = entry.operation
            if wanted in operation.command or wanted in operation.name:
                score = 2.0
            elif wanted in operation.summary.lower():
                score = 1.0
            else:
                score = min(matcher.match(operation.command), 0.9)
            if score > 0:
                yield Hit(score, plain(entry.title), partial(self._open, entry), entry.title, entry.help)

    def entries(self) -> Iterator[Entry]:
        for operation in REGISTRY:
            yield self._entry(operation, {})

    def _entry(self, operation: AnyOperation, initial: Mapping[str, Any]) -> Entry:
        screen = self.screen
        reason = refusal(screen.app_context.target, operation) if isinstance(screen, BaseScreen) else None
        if reason is None:
            return Entry(operation, initial, operation.command, operation.summary)
        return Entry(operation, initial, f"{operation.command}  (disabled)", f"Disabled: {reason}.")

    def _open(self, entry: Entry) -> None:
        screen: Widget = self.screen
        if isinstance(screen, BaseScreen):
            self.app.push_screen(FormScreen(screen.app_context, entry.operation, entry.initial))


class SelectionCommands(OperationCommands):
    """The operations that take what the cursor is on, with it filled in."""

    def entries(self) -> Iterator[Entry]:
        selection = self.screen.selection() if isinstance(self.screen, BaseScreen) else {}
        for operation in REGISTRY:
            initial = {
                field.name: selection[field.completes]
                for field in fields_of(operation)
                if field.completes is not None and field.completes in selection
            }
            if initial:
                yield self._entry(operation, initial)
