"""Tones of the words that say how things stand: one table for every face. Pure.

A face maps a tone to its colour, and HTML to a class; the colour tells nothing that the word does not.
"""

_WORDS = {
    "ok": "ok, active, applied, balanced, begun, done, finished, fits, intact, ready, served, succeeded, well balanced",
    "warning": "warn, warning, allowed, catching up, draining, drained, excluded, imbalanced, moving, opening,"
    " move, overloaded, planned, refused, rewind, running, skipped, started, unassigned, waiting, write",
    "error": "blocked, breaks, broken, critical, destroy, expired, failed, full, lost, missing, never, rejected,"
    " severely imbalanced, stall, stop, unreachable",
    "dim": "-, not known, not_kept, shown, unknown",
}
_CLASSES = {"ok": "good", "warning": "warn", "error": "bad"}
_TONE_OF = {word: tone for tone, words in _WORDS.items() for word in words.split(", ")}


def tone_of(word: object) -> str:
    """`ok`, `warning`, `error`, `dim`, or nothing for a word that says nothing of how things stand."""
    return _TONE_OF.get(str(word).lower(), "")


def class_of(word: object) -> str:
    """The class of a badge, a box or a sentence with this word: `good`, `warn`, `bad`, or nothing."""
    return _CLASSES.get(tone_of(word), "")


def alarm_of(word: object) -> str:
    """The tone of a whole row: none for what is well."""
    return tone_of(word).removeprefix("ok")
