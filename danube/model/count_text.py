"""Counts as people read them."""


def count_text(count: int, noun: str) -> str:
    """`1 message`, `12,345 messages`: of a noun whose plural takes an s."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
