"""Asking the person at the terminal. Nobody there, the end of input and Ctrl-C are never a yes."""

import sys

from danube.model.limits.faces import CLI_ANSWER_CHARS_MAX
from danube.runtime import console


def can_ask() -> bool:
    """Whether a person reads what is asked and types the answer."""
    return console.is_terminal(sys.stdin, sys.stderr)


def confirmed(question: str) -> bool:
    """Whether the answer is yes; anything else, and nothing, is no."""
    return _answer(f"{question} [y/N] ").lower() in {"y", "yes"}


def typed_again(question: str, word: str) -> bool:
    """Whether exactly this word was typed."""
    return _answer(f"{question}: ") == word


def _answer(prompt: str) -> str:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline(CLI_ANSWER_CHARS_MAX)
    if not line.endswith("\n"):
        sys.stderr.write("\n")
    return line.strip()
