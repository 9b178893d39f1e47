"""Topic names and how a topic delivers.

The grammar is the original's `/namespace/topic` (letters, digits and vowel signs of any script, `_`, `-`), without its
looseness: both parts are there and nothing precedes the first slash. Partition i of `/ns/t` is the ordinary topic
`/ns/t-part-i`.
"""

import re
from dataclasses import dataclass
from enum import IntEnum

from danube.model.alphanumeric import is_alphanumeric
from danube.model.errors import InvalidNameError
from danube.model.limits.broker import NAME_BYTES_MAX

_BESIDE_LETTERS = str.maketrans("", "", "_-")
"""Leaves out what a name may have beside letters and digits."""
_PARTITION = re.compile(r"(?P<base>.+)-part-(?P<index>0|[1-9][0-9]*)")


class DispatchStrategy(IntEnum):
    """Delivery mode of a topic; fixed when it is created."""

    NON_RELIABLE = 0
    """At most once, nothing stored."""
    RELIABLE = 1
    """At least once, from the journal."""

    def to_proto(self) -> int:
        """The number on the wire; a public name of danube-client 0.5.0."""
        return int(self)


def check_name_part(kind: str, text: str) -> str:
    """Answer `text` if it can be a namespace or the name of a topic within one. Raises InvalidNameError."""
    rest = text.translate(_BESIDE_LETTERS)
    if not text or (rest and not is_alphanumeric(rest)):
        shown = text[:80]
        raise InvalidNameError(f"{kind} {shown!r} is not a valid name: use letters, digits, '_' and '-', at least one")
    if len(text.encode()) > NAME_BYTES_MAX:
        raise InvalidNameError(f"{kind} {text[:40]!r}... is longer than {NAME_BYTES_MAX} bytes")
    return text


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """A topic of one broker at a time: a plain topic or one partition."""

    namespace: str
    local: str

    @classmethod
    def parse(cls, text: str) -> "TopicName":
        """Read `/namespace/topic`. Raises InvalidNameError."""
        parts = text.split("/")
        if len(parts) != 3 or parts[0]:
            raise InvalidNameError(f"topic {text[:80]!r} has an invalid format, should be: /namespace_name/topic_name")
        return cls(check_name_part("namespace", parts[1]), check_name_part("topic", parts[2]))

    def __str__(self) -> str:
        return f"/{self.namespace}/{self.local}"

    def partition(self, index: int) -> "TopicName":
        """The name of partition `index` (from 0) of this base topic. Raises InvalidNameError when it is too long."""
        return TopicName(self.namespace, check_name_part("partition", f"{self.local}-part-{index}"))

    @property
    def base(self) -> "TopicName | None":
        """The partitioned topic that this name is a partition of, by its form; None for any other name."""
        match = _PARTITION.fullmatch(self.local)
        return TopicName(self.namespace, match["base"]) if match else None

    def is_of(self, base: "TopicName") -> bool:
        """True for that very topic, and for its partitions by the form of the name."""
        return base in {self, self.base}

    @property
    def partition_index(self) -> int | None:
        """Partition number by the form of the name; None for any other name."""
        match = _PARTITION.fullmatch(self.local)
        return int(match["index"]) if match else None
