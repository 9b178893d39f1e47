"""Compression that may or may not be there."""

import importlib
import zlib
from types import ModuleType

import pytest

from danube.model.errors import StorageUnavailableError
from danube.storage.batches.codec import BlockCodec, Codec, is_available, open_codec

PLAIN = b"to and fro " * 1_000
THERE = [codec for codec in Codec if codec is not Codec.NONE and is_available(codec)]
"""Those that this Python has: none of them has to be."""


def standard_module() -> ModuleType:
    """What we use of `compression.zstd`."""

    class Decompressor:
        def __init__(self) -> None:
            self._opened = zlib.decompressobj()

        def decompress(self, data: bytes, max_length: int = -1) -> bytes:
            return self._opened.decompress(data, max_length)

        @property
        def eof(self) -> bool:
            return self._opened.eof

    module = ModuleType("compression.zstd")
    module.__dict__.update(compress=zlib.compress, ZstdDecompressor=Decompressor, ZstdError=zlib.error)
    return module


def package_module() -> ModuleType:
    """What we use of `zstandard`: it makes room for the length that the data claims, whatever it is told."""

    class Packer:
        def compress(self, data: bytes) -> bytes:
            return len(data).to_bytes(4, "little") + zlib.compress(data)

    class Opener:
        def decompress(self, data: bytes, max_output_size: int = 0) -> bytes:
            if frame_content_size(data) != max_output_size:
                raise MemoryError
            return zlib.decompress(data[4:])

    def frame_content_size(data: bytes) -> int:
        return int.from_bytes(data[:4], "little")

    module = ModuleType("zstandard")
    module.__dict__.update(ZstdCompressor=Packer, ZstdDecompressor=Opener, ZstdError=zlib.error)
    module.__dict__.update(frame_content_size=frame_content_size)
    return module


def have_only(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
    """As if this Python had these and no others."""
    there = {module.__name__: module for module in modules}

    def import_module(name: str) -> ModuleType:
        if name in there:
            return there[name]
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", import_module)


@pytest.fixture(params=[standard_module, package_module, *THERE])
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> BlockCodec:
    if not isinstance(request.param, Codec):
        have_only(monkeypatch, request.param())
    return open_codec(Codec.ZSTD)


def test_what_was_compressed_comes_back(codec: BlockCodec) -> None:
    packed = codec.compress(PLAIN)
    assert len(packed) < len(PLAIN) // 10
    assert codec.decompress(packed, len(PLAIN)) == PLAIN


@pytest.mark.parametrize("plain_bytes", [0, 1, len(PLAIN) - 1, len(PLAIN) + 1])
def test_another_length_than_announced_is_refused(codec: BlockCodec, plain_bytes: int) -> None:
    with pytest.raises(ValueError, match=r"there should be|another length"):
        codec.decompress(codec.compress(PLAIN), plain_bytes)


def test_what_is_no_compressed_data_is_refused(codec: BlockCodec) -> None:
    packed = codec.compress(PLAIN)
    for broken in (b"", packed[: len(packed) // 2], packed[:8] + b"\xff" * 8 + packed[16:]):
        with pytest.raises(ValueError, match=r"."):
            codec.decompress(broken, len(PLAIN))


def test_the_one_that_comes_with_python_is_taken_first(monkeypatch: pytest.MonkeyPatch) -> None:
    have_only(monkeypatch, package_module(), standard_module())
    assert open_codec(Codec.ZSTD).compress(PLAIN) == zlib.compress(PLAIN)


def test_without_any_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    have_only(monkeypatch)
    assert (is_available(Codec.NONE), is_available(Codec.ZSTD)) == (True, False)
    with pytest.raises(StorageUnavailableError, match=r"pip install zstandard, or run Python 3\.14 or newer"):
        open_codec(Codec.ZSTD)
