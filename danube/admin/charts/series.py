"""Values over time as a picture: one area for each series, with its scale, its span and its newest value. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from danube.admin.charts.svg import clipped, element, line, picture, words
from danube.admin.present import cell
from danube.model.text import span_text

WIDTH = 460
HEIGHT = 150
_LEFT = 4
_TOP = 34
_BOTTOM = 24
_TITLE_CHARS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One value over time, at even steps; None where it is not known."""

    title: str
    unit: str
    """`messages`, `messages/s`: after each number."""
    points: tuple[float | None, ...]
    """Oldest first."""
    span_s: float
    """From the first point to the last."""

    @property
    def newest(self) -> float | None:
        """The last known value."""
        return next((point for point in reversed(self.points) if point is not None), None)

    @property
    def largest(self) -> float:
        """The largest known value; 0 where nothing is known."""
        return max((point for point in self.points if point is not None), default=0.0)


def series_svg(series: Series) -> str:
    """The picture of one series, from 0 to its largest value; gaps stay open."""
    newest = series.newest
    now = "not known" if newest is None else amount(newest, series.unit)
    title = f"{series.title}: {now} now, at most {amount(series.largest, series.unit)} in {span_text(series.span_s)}"
    return picture(WIDTH, HEIGHT, title, _parts(series, now))


def amount(value: float, unit: str) -> str:
    """A number with its unit; whole numbers stay whole."""
    return f"{cell(int(value) if float(value).is_integer() else value)} {unit}"


def _parts(series: Series, now: str) -> Iterator[str]:
    base = HEIGHT - _BOTTOM
    yield words(_LEFT, 14, clipped(series.title, _TITLE_CHARS), "name")
    yield words(WIDTH - _LEFT, 14, now, "value", "end")
    yield words(_LEFT, _TOP - 4, f"at most {amount(series.largest, series.unit)}", "small")
    yield line((_LEFT, base), (WIDTH - _LEFT, base), "rule")
    for stretch in _stretches(series):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in stretch)
        closed = f"{stretch[0][0]:.1f},{base} {path} {stretch[-1][0]:.1f},{base}"
        yield element("polygon", points=closed, class_="area")
        yield element("polyline", points=path, class_="curve")
    yield words(_LEFT, HEIGHT - 6, f"{span_text(series.span_s)} ago", "small")
    yield words(WIDTH - _LEFT, HEIGHT - 6, "now", "small", "end")


def _stretches(series: Series) -> list[list[tuple[float, float]]]:
    """Coordinates of the known points, a list for each stretch without a gap."""
    step = (WIDTH - 2 * _LEFT) / max(len(series.points) - 1, 1)
    room = HEIGHT - _BOTTOM - _TOP
    found: list[list[tuple[float, float]]] = [[]]
    for at, point in enumerate(series.points):
        if point is None:
            found.append([])
            continue
        found[-1].append((_LEFT + at * step, HEIGHT - _BOTTOM - room * point / (series.largest or 1.0)))
    return [stretch for stretch in found if stretch]


def pictures(many: Sequence[Series]) -> tuple[str, ...]:
    """The pictures of several series, without those of which nothing is known."""
    return tuple(series_svg(series) for series in many if series.newest is not None)
