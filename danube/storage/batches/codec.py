"""Compression of the blocks of a segment. The only module that knows a compression library, which may be missing.

Nothing is imported before it is used. Zstandard comes with Python 3.14, and as the package `zstandard` before.
"""

import importlib
from collections.abc import Callable
from enum import IntEnum
from types import ModuleType
from typing import Protocol

from danube.model.errors import StorageUnavailableError


class Codec(IntEnum):
    """Codec in a block's header."""

    NONE = 0
    ZSTD = 1


class BlockCodec(Protocol):
    """Compresses and decompresses blocks. For one thread at a time."""

    def compress(self, plain: bytes) -> bytes:
        """`plain`, compressed."""

    def decompress(self, stored: bytes, plain_bytes: int) -> bytes:
        """The plain bytes, of this length. Raises ValueError for another length, before it uses more memory."""


CodecSource = Callable[[Codec], BlockCodec]
"""Gives the codec of this kind. Raises StorageUnavailableError when it is not there."""


def is_available(codec: Codec) -> bool:
    """True if this Python can compress so."""
    return codec is Codec.NONE or _zstd_module() is not None


def open_codec(codec: Codec) -> BlockCodec:
    """A codec that compresses so. Raises StorageUnavailableError when this Python has none."""
    module = _zstd_module()
    if module is None:
        raise StorageUnavailableError(
            f"segments compressed with {codec.name.lower()} need a package that is not there: pip install zstandard, "
            "or run Python 3.14 or newer"
        )
    return _StandardZstd(module) if module.__name__ == "compression.zstd" else _PackageZstd(module)


def _zstd_module() -> ModuleType | None:
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


class _StandardZstd:
    """On `compression.zstd`."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def compress(self, plain: bytes) -> bytes:
        packed: bytes = self._module.compress(plain)
        return packed

    def decompress(self, stored: bytes, plain_bytes: int) -> bytes:
        opened = self._module.ZstdDecompressor()
        try:
            plain: bytes = opened.decompress(stored, max_length=plain_bytes + 1)  # one more shows that it is too long
        except self._module.ZstdError as error:
            raise ValueError(str(error)) from error
        return _exactly(plain, plain_bytes, whole=opened.eof)


class _PackageZstd:
    """On `zstandard`, whose plain `decompress` takes the length that the data claims: so it says its length first."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._packer = module.ZstdCompressor()
        self._opener = module.ZstdDecompressor()

    def compress(self, plain: bytes) -> bytes:
        packed: bytes = self._packer.compress(plain)
        return packed

    def decompress(self, stored: bytes, plain_bytes: int) -> bytes:
        try:
            if self._module.frame_content_size(stored) != plain_bytes:
                raise ValueError("another length is announced")
            plain: bytes = self._opener.decompress(stored, max_output_size=plain_bytes)
        except self._module.ZstdError as error:
            raise ValueError(str(error)) from error
        return _exactly(plain, plain_bytes)


def _exactly(plain: bytes, plain_bytes: int, *, whole: bool = True) -> bytes:
    if len(plain) != plain_bytes or not whole:
        raise ValueError(f"there should be {plain_bytes} bytes in it")
    return plain
