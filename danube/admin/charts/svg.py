"""SVG as text: elements whose every value is escaped. Colours come from classes of a style sheet. Pure."""

from collections.abc import Iterable
from html import escape

from danube.admin.present import printable


def element(name: str, *children: str, **attributes: object) -> str:
    """One element; `class_` is the attribute class, and underscores are hyphens. Children are markup already."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"' for key, value in attributes.items()
    )
    return f"<{name}{given}>{''.join(children)}</{name}>" if children else f"<{name}{given}/>"


def words(x: float, y: float, content: str, class_: str = "", anchor: str = "start") -> str:
    """One line of text from anywhere: escaped, and without control characters."""
    return element("text", escape(printable(content)), x=x, y=y, class_=class_ or "word", text_anchor=anchor)


def rectangle(x: float, y: float, width: float, height: float, class_: str) -> str:
    """A rectangle with round corners."""
    return element(
        "rect", x=x, y=y, width=width, height=height, rx=min(3.0, height / 2, max(width, 0) / 2), class_=class_
    )


def line(start: tuple[float, float], end: tuple[float, float], class_: str) -> str:
    """A straight line."""
    return element("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], class_=class_)


def picture(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """A whole picture with a title for those who cannot see it."""
    shown = escape(printable(title))
    return element(
        "svg",
        element("title", shown),
        *parts,
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        role="img",
        class_="chart",
        xmlns="http://www.w3.org/2000/svg",
    )


def clipped(text: str, chars: int) -> str:
    """The text in at most so many characters, as SVG breaks no lines."""
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return printable(str(value))
