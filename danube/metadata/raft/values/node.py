"""A member of the Raft group as pysyncobj wants one: an id that says who it is and where it listens."""

from pysyncobj.node import Node

from danube.model.errors import InvalidRequestError

_DIGITS_MAX = 20  # of 64 bits

ALONE = "alone:1"
"""Address of a member without a port, the only one of its group; it gets another one with its port."""


class RaftNode(Node):  # type: ignore[misc]  # pysyncobj has no types
    """A member, by `{node id}@{host}:{port}`. Two are the same when both the id and the address are.

    A machine that lost its data folder comes back with another node id, so nobody takes it for the member that promised
    something before.
    """

    def __init__(self, id: str) -> None:  # noqa: A002 - as pysyncobj calls it
        """Raises InvalidRequestError for an id that says not both."""
        super().__init__(id)
        number, separator, address = id.partition("@")
        host, colon, port = address.rpartition(":")
        if not (separator and colon and host and _is_number(number) and _is_number(port) and 0 < int(port) < 65_536):
            raise InvalidRequestError(f"{id[:80]!r} names no member: it must look like 17@10.0.0.5:7650")
        self.node_id, self.host, self.port = int(number), host.strip("[]"), int(port)

    def __hash__(self) -> int:
        """Hash of the number alone: the same in every process, so sets of nodes have the same order in each."""
        return hash(self.node_id)

    @classmethod
    def of(cls, node_id: int, address: str) -> "RaftNode":
        """The member with this id at this address, `host:port`."""
        return cls(f"{node_id}@{address}")

    @property
    def address(self) -> str:
        """`host:port`, as in the id."""
        return str(self.id).partition("@")[2]


def _is_number(text: str) -> bool:
    """True if these are digits that make a number: `str.isdigit` takes others, too, and Python none of 5,000."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
