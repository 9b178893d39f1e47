"""The keys, and what the words mean."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from danube.admin.tui.app_context import AppContext
from danube.admin.tui.screens.result import LinesScreen
from danube.admin.tui.widgets.lines import Line, wrapped

_KEYS = {
    "Everywhere": (
        (": or Ctrl+P", "every operation: search, choose, fill in its form"),
        ("?", "this page"),
        ("p", "pause the refreshes, or go on"),
        ("r", "refresh"),
        ("+  -", "refresh more often, less often"),
        ("Esc", "back"),
    ),
    "Lists": (
        ("1 ... 6", "topics, brokers, plans, audit, lag, members; Tab goes to the next"),
        ("↑ ↓ j k", "move; Page up, Page down, Home and End too"),
        ("Enter", "open what the cursor is on; a partitioned topic unfolds, or folds again"),
        ("l  m  c", "of the topic: lag with status and cause, its messages, its connected clients"),
        ("o", "the operations for what the cursor is on"),
        ("/", "filter topics or lag: words of the name, @7 for topics of broker 7; Esc ends it"),
        ("s", "sort topics by name, lag, rate"),
        ("q", "quit; Ctrl+Q does so everywhere"),
    ),
    "Messages": (("n b f e", "next page, page before, the first and the newest messages; Enter reads one whole"),),
    "Balance": (
        ("b", "from the lists: load of the brokers; 1 2 3 4: brokers, plan, topics, last rebalance"),
        ("n", "plan a rebalance; w: why, and what would be if"),
        ("a  x  y", "approve, reject or apply the newest plan that is open"),
        ("c", "cancel the rebalance that runs"),
        ("m  i", "set the automatic mode; pin a topic, exclude a namespace or a broker"),
    ),
    "Schemas": (
        ("v", "from the lists: subjects, then versions, then what changed between two and what it breaks"),
        ("< >  [ ]", "the version that is shown, and the one that it is compared with; 1 2: change, definition"),
    ),
    "Plans": (
        ("Enter", "read a plan whole"),
        ("a  x", "approve or reject one that waits; y applies one that is ready"),
        ("type it", "a word has to be typed: the plan's id, or the name of what is destroyed"),
    ),
}
_WORDS = (
    (
        "A broker's score is the share of the resource that it uses most of, in percent. The imbalance is how far the"
        " scores lie apart (standard deviation by mean): below 0.2 well balanced, below 0.3 balanced, from 0.4"
        " severely imbalanced."
    ),
    (
        "Lag is the number of messages that are stored and not acknowledged, of the subscription that is furthest"
        " behind. A dash is not known, or not there. The bars show the last looks, the word beside them where the lag"
        " is going."
    ),
    (
        "What cannot be reached keeps its last known data, with its age on top. Nothing has to be pressed: it is tried"
        " again."
    ),
    (
        "What the access level does not allow is listed as disabled, with the reason. Plans that an assistant asked"
        " for wait here until somebody decides."
    ),
)


class HelpScreen(LinesScreen):
    """Help, which `?` shows."""

    KEYS = "↑↓ move  Esc back"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark", "app.pop_screen", "Back")]

    def __init__(self, app_context: AppContext) -> None:
        super().__init__(app_context, "Keys")

    def lines(self, width: int) -> Sequence[Line]:
        lines = []
        for title, keys in _KEYS.items():
            lines.append(Line(title, "heading"))
            for key, meaning in keys:
                first, *rest = wrapped(meaning, max(width - 14, 20))
                lines += [Line(f"  {key:<12}{first}"), *(Line(" " * 14 + text) for text in rest)]
            lines.append(Line(""))
        for sentence in _WORDS:
            lines += [*(Line(text) for text in wrapped(sentence, width)), Line("")]
        return lines[:-1]
