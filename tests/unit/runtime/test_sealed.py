from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
import pytest

from danube.runtime.checksum import with_crc
from danube.runtime.sealed import OtherVersionError, Sealed, UnsealError


class Colour(IntEnum):
    RED = 1
    BLUE = 2


class Range(NamedTuple):
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Inner:
    count: int
    colour: Colour = Colour.RED


@dataclass(frozen=True, slots=True)
class Thing:
    name: str
    inner: Inner
    rows: tuple[Inner, ...] = ()
    ranges: tuple[Range, ...] = ()
    maybe: Inner | None = None
    share: float = 0.5
    content: bytes = b""
    facts: Mapping[str, object] | None = None


THINGS: Sealed[Thing] = Sealed(b"DnTt", Thing)
FULL = Thing(
    "a", Inner(3, Colour.BLUE), (Inner(4), Inner(5, Colour.BLUE)), (Range(1, 2),), Inner(6), 1, b"\xff", {"k": [1]}
)
PLAIN = Thing("b", Inner(0))


def sealed(body: object, version: int = 1, codec: int = 0, magic: bytes = b"DnTt") -> bytes:
    return with_crc(magic + bytes([version, codec]) + msgspec.msgpack.encode(body))


@pytest.mark.parametrize("thing", [FULL, PLAIN])
def test_a_record_reads_back_as_it_was_sealed(thing: Thing) -> None:
    assert THINGS.unseal(THINGS.seal(thing)) == thing


def test_fields_with_their_default_are_left_out_and_objects_in_tuples_are_rows() -> None:
    assert THINGS.shown(THINGS.seal(PLAIN)) == {"name": "b", "inner": {"count": 0}}
    assert THINGS.shown(THINGS.seal(FULL))["rows"] == [[4, 1], [5, 2]]


@pytest.mark.parametrize("thing", [FULL, PLAIN])
def test_every_flipped_bit_and_every_cut_is_refused(thing: Thing) -> None:
    packed = THINGS.seal(thing)
    for at in range(8 * len(packed)):
        damaged = bytearray(packed)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(UnsealError, match="cut off, or not what was written"):
            THINGS.unseal(bytes(damaged))
    for length in range(len(packed)):
        with pytest.raises(UnsealError):
            THINGS.unseal(packed[:length])
    with pytest.raises(UnsealError):
        THINGS.unseal(packed + b"\0")


GOOD: dict[str, Any] = {"name": "a", "inner": {"count": 1}}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({**GOOD, "later": 1}, "unknown field `later`"),
        ({**GOOD, "inner": {"count": 1, "later": 1}}, r"unknown field `later` - at `\$.inner`"),
        ({"name": "a"}, "missing required field `inner`"),
        ({**GOOD, "name": 1}, r"Expected `str`, got `int` - at `\$.name`"),
        ({**GOOD, "inner": {"count": 1, "colour": 9}}, r"Invalid enum value 9 - at `\$.inner.colour`"),
        ({**GOOD, "rows": [[1, 1], [1, 1, 1]]}, r"length 2, got 3 - at `\$.rows\[1\]`"),
        ({**GOOD, "ranges": [[1]]}, r"at `\$.ranges\[0\]`"),
        ([], "Expected `object`, got `array`"),
        (None, "Expected `object`"),
    ],
)
def test_what_is_no_such_record_is_refused_with_the_path(body: object, told: str) -> None:
    with pytest.raises(UnsealError, match=told):
        THINGS.unseal(sealed(body))


def test_what_follows_the_body_is_refused() -> None:
    with pytest.raises(UnsealError, match="trailing"):
        THINGS.unseal(with_crc(b"DnTt\1\0" + msgspec.msgpack.encode(GOOD) + b"\0"))


def test_a_sound_record_of_another_version_is_told_from_damage() -> None:
    with pytest.raises(OtherVersionError) as refused:
        THINGS.unseal(sealed({"anything": 1}, version=2))
    assert (refused.value.found, refused.value.known) == (2, 1)


@pytest.mark.parametrize(("codec", "magic", "told"), [(1, b"DnTt", "no codec"), (0, b"DnXx", "begins with")])
def test_another_codec_or_another_kind_is_refused(codec: int, magic: bytes, told: str) -> None:
    with pytest.raises(UnsealError, match=told):
        THINGS.unseal(sealed(GOOD, codec=codec, magic=magic))


def test_a_field_of_another_type_is_not_sealed() -> None:
    with pytest.raises(ValueError, match=r"Expected `int`, got `str` - at `\$.inner.count`"):
        THINGS.seal(Thing("a", Inner("1")))  # type: ignore[arg-type]


def test_a_large_body_is_compressed_and_inflated_up_to_a_bound() -> None:
    large = Thing("x" * 10_000, Inner(1))
    roomy: Sealed[Thing] = Sealed(b"DnTt", Thing, compress_from=100, bytes_max=11_000)
    packed = roomy.seal(large)
    assert len(packed) < 200
    assert roomy.unseal(packed) == large
    assert roomy.seal(PLAIN) == THINGS.seal(PLAIN)
    narrow: Sealed[Thing] = Sealed(b"DnTt", Thing, compress_from=100, bytes_max=9_000)
    with pytest.raises(UnsealError, match="larger than 9000 bytes"):
        narrow.unseal(packed)
