"""JSON that came from outside, or from a disk: the one way to read it. Pure.

Whatever the bytes are, the answer is a JSON value that any code can go on with, or UntrustedJsonError: text that UTF-8
can hold, integers of 64 bits, finite numbers, and at most JSON_DEPTH_MAX levels.
"""

import json
import math
from itertools import chain
from typing import Any

from danube.model.limits.broker import JSON_DEPTH_MAX

_SHORT_DIGITS, _LONGEST_DIGITS = 19, 20  # 10**18 fits, and so does the longest with its sign


class UntrustedJsonError(ValueError):
    """The text is no JSON, or holds a value that no reader here accepts."""


def decode_json(data: bytes | str, *, depth_max: int = JSON_DEPTH_MAX, any_text: bool = False) -> Any:  # noqa: ANN401
    """The value. Raises UntrustedJsonError, and nothing else, whatever the data is.

    With `any_text` a text may hold half of a surrogate pair, which UTF-8 cannot.
    """
    try:
        text = data.decode() if isinstance(data, bytes) else data
        value = _DECODER.decode(text)
        if text.count("[") + text.count("{") > depth_max:
            _check_depth(value, depth_max)
        if not any_text and ("\\u" in text or not text.isascii()):
            json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair has no UTF-8
    except RecursionError:
        raise UntrustedJsonError("it is nested too deeply") from None
    except ValueError as error:
        raise UntrustedJsonError(str(error)) from None
    return value


def _integer(text: str) -> int:
    if len(text) < _SHORT_DIGITS:
        return int(text)
    if len(text) > _LONGEST_DIGITS or not -(2**63) <= int(text) < 2**64:
        raise ValueError("it holds an integer of more than 64 bits")
    return int(text)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("it holds a number that is not finite")
    return number


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_number, parse_constant=_number)


def _check_depth(value: object, depth_max: int) -> None:
    """Raise ValueError for a value of too many levels. One after the other: recursion has a limit of its own."""
    level = [value]
    for _ in range(depth_max):
        lists = [each for each in level if isinstance(each, list)]
        objects = [each.values() for each in level if isinstance(each, dict)]
        level = list(chain(*lists, *objects))
        if not level:
            return
    raise ValueError(f"it has more than {depth_max} levels")
