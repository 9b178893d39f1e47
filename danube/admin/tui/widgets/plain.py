"""Text for Textual's own widgets that obeys nothing in it: no markup, no control characters."""

from textual.content import Content
from textual.widgets import Input

from danube.admin.present import printable


def plain(text: str) -> Content:
    """The text as it is."""
    return Content(printable(text))


class PlainInput(Input):
    """A line to type in. What is pasted or filled in is shown as `printable` shows it, and is that from then on."""

    def validate_value(self, value: str) -> str:
        """Escape what would be drawn as a command to the terminal."""
        return printable(value)
