"""Plots as SVG without scripts or outside references: lines over time, with a band, and horizontal bars. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from danube.model.text import amount_text

WIDTH, HEIGHT = 860, 240
_SMALL_WIDTH, _SMALL_HEIGHT = 420, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 30, 28
_BAR_HEIGHT, _BAR_GAP, _BAR_LEFT, _BAR_RIGHT = 16, 8, 250, 110
_TICKS, _LEGEND_ROW = 4, 18
_POINTS_MAX = 600
Point = tuple[float, float]
"""Milliseconds since 1970, and a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a plot."""

    name: str
    points: Sequence[Point]
    low: Sequence[Point] = ()
    """Lower edge of the band around it, with as many points as `high`."""
    high: Sequence[Point] = ()
    spans: Sequence[Point] = ()
    """Times from which and until which something was wrong."""


def line_plot(title: str, lines: Sequence[Line], *, unit: str = "", mark: float | None = None) -> str:
    """Lines over one time axis; `mark` is a horizontal line, such as a limit."""
    points = _points(lines)
    if not points:
        return _picture(title, WIDTH, 60, [_text(_LEFT, 44, "nothing was measured", "muted")])
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    top = _round_up(max([value for _, value in points] + ([mark] if mark is not None else [])))
    scale = _Scale(first, max(last, first + 1), top)
    parts = [*_axes(scale, unit, _TICKS)]
    for number, line in enumerate(lines):
        parts += _drawn(scale, line, number % 6)
    if mark is not None:
        y = scale.y(mark)
        parts.append(f'<line class="mark" x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}"/>')
    legend, rows = _legend(lines)
    return _picture(title, WIDTH, HEIGHT + _LEGEND_ROW * rows, [*parts, *legend])


def small_plots(lines: Sequence[Line]) -> list[str]:
    """A small plot for each line, all over the same time, each with its own values."""
    at = [at for at, _ in _points(lines)]
    found = []
    for line in lines if at else ():
        top = _round_up(max((value for _, value in _points([line])), default=0.0))
        scale = _Scale(min(at), max(*at, min(at) + 1), top, _SMALL_WIDTH, _SMALL_HEIGHT)
        parts = [*_spans(scale, line.spans), *_axes(scale, "", _TICKS // 2), *_drawn(scale, line, 0)]
        found.append(_picture(_clipped(line.name, 56), _SMALL_WIDTH, _SMALL_HEIGHT, parts, "small"))
    return found


def _points(lines: Sequence[Line]) -> list[Point]:
    return [point for line in lines for point in (*line.points, *line.low, *line.high) if math.isfinite(point[1])]


def _spans(scale: "_Scale", spans: Sequence[Point]) -> Iterator[str]:
    for begin, end in spans:
        left, right = (scale.x(min(max(at, scale.first), scale.last)) for at in (begin, end))
        size = f'width="{max(1.0, right - left):.1f}" height="{scale.height - _TOP - _BOTTOM}"'
        yield f'<rect class="span" x="{left:.1f}" y="{_TOP}" {size}/>'


def bar_plot(title: str, bars: Sequence[tuple[str, float, str]]) -> str:
    """Bars with a name, a value and its text, the first on top."""
    most = max((value for _, value, _ in bars), default=0.0) or 1.0
    width = WIDTH - _BAR_LEFT - _BAR_RIGHT
    parts = []
    for number, (name, value, text) in enumerate(bars):
        y = _TOP + number * (_BAR_HEIGHT + _BAR_GAP)
        length = max(1.0, width * max(0.0, value) / most)
        parts.append(_text(_BAR_LEFT - 8, y + 12, _clipped(name), "label end"))
        parts.append(f'<rect class="s0" x="{_BAR_LEFT}" y="{y}" width="{length:.1f}" height="{_BAR_HEIGHT}" rx="2"/>')
        parts.append(_text(_BAR_LEFT + length + 6, y + 12, text, "label"))
    return _picture(title, WIDTH, _TOP + len(bars) * (_BAR_HEIGHT + _BAR_GAP) + 6, parts)


@dataclass(frozen=True, slots=True)
class _Scale:
    first: float
    last: float
    top: float
    width: int = WIDTH
    height: int = HEIGHT

    def x(self, at: float) -> float:
        return _LEFT + (at - self.first) / (self.last - self.first) * (self.width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return self.height - _BOTTOM - value / self.top * (self.height - _TOP - _BOTTOM)


def _axes(scale: _Scale, unit: str, ticks: int) -> Iterator[str]:
    for number in range(ticks + 1):
        value = scale.top * number / ticks
        y = scale.y(value)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{scale.width - _RIGHT}" y2="{y:.1f}"/>'
        yield _text(_LEFT - 6, y + 4, f"{amount_text(value)}{unit if number == ticks else ''}", "label end")
    span_ms = scale.last - scale.first
    form = "%H:%M:%S" if span_ms < 600_000 else "%H:%M" if span_ms < 2 * 86_400_000 else "%d %b %H:%M"
    for number in range(ticks + 1):
        at = scale.first + span_ms * number / ticks
        side = "" if number == 0 else " end" if number == ticks else " middle"
        yield _text(
            scale.x(at), scale.height - 8, datetime.fromtimestamp(at / 1_000, UTC).strftime(form), f"label{side}"
        )


def _drawn(scale: _Scale, line: Line, color: int) -> Iterator[str]:
    if line.low and line.high:
        edge = [*line.high, *reversed(line.low)]
        yield f'<polygon class="b{color}" points="{_path(scale, edge)}"/>'
    points = [point for point in _thinned(line.points) if math.isfinite(point[1])]
    if len(points) == 1:
        yield f'<circle class="d{color}" cx="{scale.x(points[0][0]):.1f}" cy="{scale.y(points[0][1]):.1f}" r="3"/>'
    elif points:
        yield f'<polyline class="l{color}" points="{_path(scale, points)}"/>'


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    """At most _POINTS_MAX of them, the largest of each stretch: peaks stay."""
    size = -(-len(points) // _POINTS_MAX)
    if size <= 1:
        return points
    return [max(points[at : at + size], key=lambda point: point[1]) for at in range(0, len(points), size)]


def _path(scale: _Scale, points: Sequence[Point]) -> str:
    return " ".join(f"{scale.x(at):.1f},{scale.y(max(0.0, value)):.1f}" for at, value in points)


def _legend(lines: Sequence[Line]) -> tuple[list[str], int]:
    """Names of the lines below the plot, in as many rows as they take."""
    parts, x, row = list[str](), float(_LEFT), 0
    for number, line in enumerate(lines[:6] if len(lines) > 1 else ()):
        width = 34 + 6.4 * len(_clipped(line.name))
        if x > _LEFT and x + width > WIDTH - _RIGHT:
            x, row = float(_LEFT), row + 1
        y = HEIGHT + _LEGEND_ROW * row + 8
        parts.append(f'<rect class="s{number % 6}" x="{x:.0f}" y="{y - 6}" width="10" height="4"/>')
        parts.append(_text(x + 14, y, _clipped(line.name), "label"))
        x += width
    return parts, row + 1 if parts else 0


def _picture(title: str, width: int, height: float, parts: Sequence[str], kind: str = "wide") -> str:
    head = f'<svg class="{kind}" viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(title)}">'
    return "".join((head, f"<title>{escape(title)}</title>", _text(0, 14, title, "title"), *parts, "</svg>"))


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _clipped(name: str, chars: int = 36) -> str:
    printable = "".join(char if char.isprintable() else "?" for char in name)
    return printable if len(printable) <= chars else printable[: chars // 2 - 1] + "…" + printable[-chars // 2 :]


def _round_up(value: float) -> float:
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in (1, 2, 2.5, 4, 5, 8, 10) if step * size >= value * 0.999999)
