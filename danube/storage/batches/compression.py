"""Compression of the records of a batch. The only module here that knows compression libraries, which may be missing.

Nothing is imported before it is used. Both kinds are frames that say their length; what is opened is bounded by it.
"""

import importlib
from enum import IntEnum
from types import ModuleType

from danube.model.errors import InvalidBatchError, InvalidRequestError, UnsupportedError
from danube.storage.batches.codec import BlockCodec, Codec, is_available, open_codec


class BatchCodec(IntEnum):
    """Codec in the header of a body; 1 is reserved for gzip."""

    NONE = 0
    LZ4 = 2
    ZSTD = 3


def available_codecs() -> tuple[BatchCodec, ...]:
    """The codecs that this Python can open, besides none."""
    found = [BatchCodec.LZ4] if _lz4() is not None else []
    return (*found, BatchCodec.ZSTD) if is_available(Codec.ZSTD) else tuple(found)


def codec_of(name: str) -> BatchCodec:
    """The codec of this name. Raises InvalidRequestError for another name, UnsupportedError without its package."""
    found = {"lz4": BatchCodec.LZ4, "zstd": BatchCodec.ZSTD, "none": BatchCodec.NONE}.get(name)
    if found is None:
        raise InvalidRequestError(f"compression {name[:20]!r} is unknown: use lz4, zstd or none")
    compress(found, b"")
    return found


def compress(codec: BatchCodec, plain: bytes) -> bytes:
    """`plain`, compressed. Raises UnsupportedError when the library is not there."""
    match codec:
        case BatchCodec.LZ4:
            packed: bytes = _required_lz4().compress(plain, store_size=True)
            return packed
        case BatchCodec.ZSTD:
            return _zstd().compress(plain)
        case _:
            return plain


def decompress(codec: BatchCodec, stored: bytes, plain_bytes: int) -> bytes:
    """The plain bytes, of this length. Raises InvalidBatchError for anything else, before it uses more memory."""
    try:
        plain = (
            _required_lz4_decompress(stored, plain_bytes)
            if codec is BatchCodec.LZ4
            else _zstd().decompress(stored, plain_bytes)
        )
    except (ValueError, RuntimeError) as error:
        raise InvalidBatchError(f"the records of a batch cannot be decompressed: {error}") from error
    return plain


def _required_lz4_decompress(stored: bytes, plain_bytes: int) -> bytes:
    module = _required_lz4()
    opener = module.LZ4FrameDecompressor()
    plain: bytes = opener.decompress(stored, max_length=plain_bytes + 1)  # one more shows that it is too long
    if len(plain) != plain_bytes or not opener.eof or opener.unused_data:
        raise ValueError(f"there should be {plain_bytes} bytes in it")
    return plain


def _required_lz4() -> ModuleType:
    module = _lz4()
    if module is None:
        raise UnsupportedError("batches compressed with lz4 need a package that is not there: pip install lz4")
    return module


def _lz4() -> ModuleType | None:
    try:
        return importlib.import_module("lz4.frame")
    except ImportError:
        return None


def _zstd() -> BlockCodec:
    if not is_available(Codec.ZSTD):
        raise UnsupportedError("batches compressed with zstd need a package that is not there: pip install zstandard")
    return open_codec(Codec.ZSTD)
