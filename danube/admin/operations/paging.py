"""Pages of a listing: rows sorted by their key, and a cursor that says after which key the next page begins. Pure."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import TypeVar

from danube.admin.operations.fields import PageParams
from danube.model.errors import InvalidRequestError

Row = TypeVar("Row")


def cursor_after(key: str) -> str:
    """The cursor of the page that begins after this key."""
    return urlsafe_b64encode(key.encode()).decode().rstrip("=")


def key_of(cursor: str) -> str:
    """The key after which a page begins. Raises InvalidRequestError."""
    try:
        return urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError:
        raise InvalidRequestError("this cursor was not given out by a listing: start again without one") from None


def page_of(rows: Sequence[Row], key: Callable[[Row], str], params: PageParams) -> tuple[list[Row], str | None]:
    """The page that was asked for and the cursor of the next one. `rows` are all there are, sorted by `key`."""
    after = key_of(params.cursor) if params.cursor else None
    rest = [row for row in rows if after is None or key(row) > after]
    page = rest if params.limit is None else rest[: params.limit]
    return page, cursor_after(key(page[-1])) if len(page) < len(rest) else None


def sortable(value: object) -> tuple[int, float, str]:
    """A key that puts numbers in their order, and before texts in theirs."""
    if isinstance(value, bool | int | float):
        return 0, float(value), ""
    return 1, 0.0, str(value)
