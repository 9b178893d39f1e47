"""Drawings of results whose fields one by one tell too little: facts, tables with bars, sentences. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """A cell with a bar: part of a whole, and its value in words."""

    share: float | None
    """0 to 1; None where it is not known."""
    text: str


PortraitCell = str | Share


@dataclass(frozen=True, slots=True)
class PortraitTable:
    """Rows under columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[PortraitCell, ...], ...]


@dataclass(frozen=True, slots=True)
class Portrait:
    """A result as people read it."""

    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[PortraitTable, ...] = ()
    notes: tuple[str, ...] = ()
