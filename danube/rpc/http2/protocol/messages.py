"""Messages of gRPC in the bytes of a stream: `compressed u8 | length u32 | message`."""

from danube.model.errors import DanubeError, InvalidRequestError, LimitReachedError, UnsupportedError

PREFIX_BYTES = 5


class MessageReader:
    """Cuts the data of one stream into messages; holds what has arrived of the next one."""

    __slots__ = ("_bytes_max", "_held")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held: bytearray | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes that have arrived of a message that is not whole."""
        return 0 if self._held is None else len(self._held)

    @property
    def missing_bytes(self) -> int:
        """Bytes that the message which has begun still needs; 0 between messages, or while its length is unknown."""
        held = self._held
        if held is None or len(held) < PREFIX_BYTES:
            return 0
        return PREFIX_BYTES + int.from_bytes(held[1:PREFIX_BYTES], "big") - len(held)

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are whole now. Raises DanubeError for one that this end does not take."""
        held = self._held
        if held is None:
            messages, taken = self._cut(data)
            if taken < len(data):
                self._held = bytearray(data[taken:])
            return messages
        held += data
        if len(held) < PREFIX_BYTES or self.missing_bytes > 0:
            if len(held) >= PREFIX_BYTES:
                self._check(held[0], PREFIX_BYTES + int.from_bytes(held[1:PREFIX_BYTES], "big"))
            return []
        whole = bytes(held)
        messages, taken = self._cut(whole)
        self._held = bytearray(whole[taken:]) if taken < len(whole) else None
        return messages

    def _cut(self, data: bytes) -> tuple[list[bytes], int]:
        messages: list[bytes] = []
        position, size = 0, len(data)
        while size - position >= PREFIX_BYTES:
            start = position + PREFIX_BYTES
            end = start + int.from_bytes(data[position + 1 : start], "big")
            self._check(data[position], end - position)
            if end > size:
                break
            messages.append(data[start:end])
            position = end
        return messages, position

    def _check(self, compressed: int, size: int) -> None:
        error = refusal(compressed, size - PREFIX_BYTES, self._bytes_max)
        if error is not None:
            raise error


def refusal(compressed: int, size: int, bytes_max: int) -> DanubeError | None:
    """The reason why a message is not taken, by its prefix."""
    if compressed > 1:
        return InvalidRequestError("a message's prefix is not gRPC's: its first byte must be 0")
    if compressed:
        return UnsupportedError("the message is compressed (grpc-encoding): send it without compression")
    if size > bytes_max:
        return LimitReachedError(f"a message of {size} bytes is larger than the {bytes_max} that this end takes")
    return None
