"""Pages of a listing: rows in the order of their keys, and a cursor with the key of the last row before. Pure."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from typing import TypeVar

from danube.model.errors import InvalidRequestError
from danube.model.untrusted_json import decode_json

Row = TypeVar("Row")
Key = tuple[str | int, ...]
"""The place of a row, which no other row of its listing has: numbers sort as numbers, texts as texts."""


def cursor_after(key: Key) -> str:
    """The cursor of the page that begins after this key."""
    text = json.dumps(key, ensure_ascii=False, separators=(",", ":"))
    return urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def key_of(cursor: str) -> Key:
    """The key after which a page begins. Raises InvalidRequestError."""
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("utf-8", "surrogatepass")
        key = decode_json(text, any_text=True)
    except ValueError:
        key = None
    if not isinstance(key, list) or not key or not all(isinstance(each, str | int) for each in key):
        raise _unknown_cursor()
    return tuple(key)


def page_of(
    rows: Iterable[Row], key: Callable[[Row], Key], limit: int | None, cursor: str | None
) -> tuple[list[Row], str | None]:
    """The page that was asked for and the cursor of the next one. `rows` are all there are, in any order.

    Raises InvalidRequestError for a cursor of another listing.
    """
    rest = sorted(rows, key=key)
    if cursor:
        after = key_of(cursor)
        try:
            rest = [row for row in rest if key(row) > after]
        except TypeError:  # a number where this listing has a text
            raise _unknown_cursor() from None
    page = rest if limit is None else rest[:limit]
    return page, cursor_after(key(page[-1])) if len(page) < len(rest) else None


def sortable(value: object) -> tuple[int, float, str]:
    """A key that puts numbers in their order, and before texts in theirs."""
    if isinstance(value, bool | int | float):
        return 0, float(value), ""
    return 1, 0.0, str(value)


def _unknown_cursor() -> InvalidRequestError:
    return InvalidRequestError("this cursor was not given out by this listing: start again without one")
