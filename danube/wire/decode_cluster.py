"""Protobuf bytes -> model values, for the agreement on metadata. Rejects as `decode` does."""

from danube.model.calls.admin import AddNode, BrokerStanding, ClusterDescription, ClusterMember
from danube.model.errors import InvalidRequestError
from danube.model.limits.metadata import NODE_ADDRESS_BYTES_MAX
from danube.wire.gen import DanubeAdmin_pb2, DanubeControl_pb2
from danube.wire.interceptors import parse

# Requests


def add_node(request: bytes) -> AddNode:
    """An AddNodeRequest; a node id of 0 is whichever waits there."""
    message = parse(DanubeAdmin_pb2.AddNodeRequest, request)
    if not message.addr or len(message.addr) > NODE_ADDRESS_BYTES_MAX:
        raise InvalidRequestError("a node is added by the address of its Raft port: give host:port")
    return AddNode(address=message.addr, node_id=str(message.node_id) if message.node_id else None)


def node(request: bytes) -> str:
    """The node of a PromoteNodeRequest or a RemoveNodeRequest: two messages with one layout."""
    node_id = parse(DanubeAdmin_pb2.PromoteNodeRequest, request).node_id
    if not node_id:
        raise InvalidRequestError("0 is no node: the status of the cluster lists the ids of its nodes")
    return str(node_id)


def transfer_leadership(request: bytes) -> str | None:
    """The node of a TransferLeadershipRequest; None for any."""
    node_id = parse(DanubeControl_pb2.TransferLeadershipRequest, request).node_id
    return str(node_id) if node_id else None


def describe_cluster(request: bytes) -> None:
    """A DescribeClusterRequest, which asks nothing."""
    parse(DanubeControl_pb2.DescribeClusterRequest, request)


# Answers


def node_added(response: bytes) -> tuple[bool, str, str]:
    """An AddNodeResponse: whether it was, which node, and what the broker says."""
    message = parse(DanubeAdmin_pb2.AddNodeResponse, response)
    return message.success, str(message.node_id), message.message


def node_changed(response: bytes) -> tuple[bool, str]:
    """A PromoteNodeResponse or a RemoveNodeResponse: whether it was, and what the broker says."""
    message = parse(DanubeAdmin_pb2.PromoteNodeResponse, response)
    return message.success, message.message


def leadership_transferred(response: bytes) -> str:
    """Who leads, of a TransferLeadershipResponse."""
    return str(parse(DanubeControl_pb2.TransferLeadershipResponse, response).leader_id)


def cluster_description(response: bytes) -> ClusterDescription:
    """A DescribeClusterResponse."""
    message = parse(DanubeControl_pb2.DescribeClusterResponse, response)
    return ClusterDescription(
        kind=message.kind,
        node_id=str(message.node_id) if message.node_id else None,
        address=message.address,
        leader_id=str(message.leader_id) if message.leader_id else None,
        term=message.term,
        position=message.position,
        has_quorum=message.has_quorum,
        members=tuple(_member(each) for each in message.members),
        leader_broker_id=message.leader_broker_id or None,
        brokers=tuple(_standing(each) for each in message.brokers),
    )


def _standing(message: DanubeControl_pb2.BrokerStanding) -> BrokerStanding:
    return BrokerStanding(
        broker_id=message.broker_id,
        status=message.status,
        topics=message.topics,
        last_seen_ms=message.last_seen_ms if message.HasField("last_seen_ms") else None,
    )


def _member(message: DanubeControl_pb2.ClusterMember) -> ClusterMember:
    return ClusterMember(
        node_id=str(message.node_id),
        address=message.address,
        votes=message.votes,
        connected=message.connected,
        lag=message.lag if message.HasField("lag") else None,
        broker_id=message.broker_id or None,
    )
