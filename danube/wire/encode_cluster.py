"""Model values -> protobuf bytes, for the agreement of brokers on metadata."""

from danube.model.calls.admin import AddNode, BrokerStanding, ClusterDescription, ClusterMember
from danube.wire.gen import DanubeAdmin_pb2, DanubeControl_pb2

# Requests


def add_node(call: AddNode) -> bytes:
    """An AddNodeRequest."""
    return DanubeAdmin_pb2.AddNodeRequest(addr=call.address, node_id=int(call.node_id or 0)).SerializeToString()


def node(node_id: str) -> bytes:
    """A PromoteNodeRequest or a RemoveNodeRequest: two messages with one layout."""
    return DanubeAdmin_pb2.PromoteNodeRequest(node_id=int(node_id)).SerializeToString()


def transfer_leadership(node_id: str | None) -> bytes:
    """A TransferLeadershipRequest."""
    return DanubeControl_pb2.TransferLeadershipRequest(node_id=int(node_id or 0)).SerializeToString()


# Answers


def node_added(node_id: str) -> bytes:
    """An AddNodeResponse."""
    message = DanubeAdmin_pb2.AddNodeResponse(success=True, node_id=int(node_id), message=f"node {node_id} follows")
    return message.SerializeToString()


def node_promoted(node_id: str) -> bytes:
    """A PromoteNodeResponse."""
    return DanubeAdmin_pb2.PromoteNodeResponse(success=True, message=f"node {node_id} votes").SerializeToString()


def node_removed(node_id: str) -> bytes:
    """A RemoveNodeResponse."""
    return DanubeAdmin_pb2.RemoveNodeResponse(success=True, message=f"node {node_id} is out").SerializeToString()


def leadership_transferred(leader_id: str) -> bytes:
    """A TransferLeadershipResponse."""
    return DanubeControl_pb2.TransferLeadershipResponse(leader_id=int(leader_id)).SerializeToString()


def cluster_description(status: ClusterDescription) -> bytes:
    """A DescribeClusterResponse."""
    message = DanubeControl_pb2.DescribeClusterResponse(
        kind=status.kind,
        node_id=int(status.node_id or 0),
        address=status.address,
        leader_id=int(status.leader_id or 0),
        term=status.term,
        position=status.position,
        has_quorum=status.has_quorum,
        members=[_member(each) for each in status.members],
        leader_broker_id=status.leader_broker_id or "",
        brokers=[_standing(each) for each in status.brokers],
    )
    return message.SerializeToString()


def _standing(each: BrokerStanding) -> DanubeControl_pb2.BrokerStanding:
    return DanubeControl_pb2.BrokerStanding(
        broker_id=each.broker_id, status=each.status, topics=each.topics, last_seen_ms=each.last_seen_ms
    )


def _member(each: ClusterMember) -> DanubeControl_pb2.ClusterMember:
    return DanubeControl_pb2.ClusterMember(
        node_id=int(each.node_id),
        address=each.address,
        votes=each.votes,
        connected=each.connected,
        lag=each.lag,
        broker_id=each.broker_id or "",
    )
