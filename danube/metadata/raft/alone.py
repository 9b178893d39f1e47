"""Transport of a group of one: it has no port, and there is nobody to send to."""

from collections.abc import Callable, Mapping
from typing import Any

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.core.overrides import Transport
from danube.metadata.raft.port.inquiry import Invitation, Probe
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import UnavailableError


class LoneTransport(Transport):  # type: ignore[misc]  # pysyncobj has no types
    """A `RaftTransport` without a port."""

    def __init__(self) -> None:
        super().__init__(None, None, ())
        self.on_probe: Callable[[], Mapping[str, Any]] = dict
        self.on_invite: Callable[[Invitation], bool] = lambda _invitation: False

    def addNode(self, node: RaftNode) -> None:  # noqa: N802 - as pysyncobj calls it
        """Nobody is dialled."""

    def dropNode(self, node: RaftNode) -> None:  # noqa: N802 - as pysyncobj calls it
        """Nobody was connected."""

    def send(self, node: RaftNode, message: Any) -> bool:  # noqa: ANN401, ARG002 - plain data, for nobody
        return False

    def destroy(self) -> None:
        """Idempotent."""

    def become(self, role: MemberRole) -> None:
        """No other member knows the role."""

    def tick(self) -> None:
        """No connection has a time."""

    def has_room(self, node: RaftNode) -> bool:  # noqa: ARG002 - as for all
        return False

    def hears(self, node: RaftNode) -> bool:  # noqa: ARG002 - as for all
        return False

    def probe(self, address: str, timeout_s: float, done: Callable[[Probe | Exception], None]) -> None:  # noqa: ARG002 - at once
        done(_alone())

    def invite(
        self,
        address: str,  # noqa: ARG002 - whoever it is
        invitation: Invitation,  # noqa: ARG002 - as above
        timeout_s: float,  # noqa: ARG002 - at once
        done: Callable[[bool | Exception], None],
    ) -> None:
        done(_alone())


def _alone() -> UnavailableError:
    return UnavailableError("this broker stands alone and has no Raft port: restart it with --mode cluster")
