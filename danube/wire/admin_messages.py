"""Messages of `danube_admin`: the calls of the admin port that the original has."""

import json
from dataclasses import asdict, fields
from functools import partial
from operator import attrgetter

from danube.loadmgr.score import band_of
from danube.model.calls.admin import (
    ActivateBroker,
    AddNode,
    BrokerInfo,
    CreatePartitionedTopic,
    CreateTopic,
    NamespacePolicies,
    RaftStatus,
    TopicDetails,
    TopicInfo,
    UnloadBroker,
    UnloadedBroker,
    Unsubscribe,
)
from danube.model.calls.balance import (
    AutomaticBalance,
    BalanceFigures,
    BrokerBalance,
    ClusterBalance,
    TriggeredRebalance,
    TriggerRebalance,
)
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import PARTITIONS_MAX
from danube.model.limits.metadata import NODE_ADDRESS_BYTES_MAX
from danube.model.policies import FailurePolicy, SetDispatchWindow, SetFailurePolicy, SubscriptionName, check_window
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName, check_name_part
from danube.model.untrusted_json import decode_json
from danube.wire.codec import Codec, Rule, Unread, listing, record, row, single
from danube.wire.gen import DanubeAdmin_pb2 as pb
from danube.wire.parsing import member_name, topic_name, undecodable

EMPTY = Unread(pb.Empty)
"""The request of calls without parameters, such as ListNamespaces."""

SUBSCRIPTION_RULE = Rule(decode=partial(member_name, "subscription"))
NAME_RULE = Rule(flat={"subscription": SUBSCRIPTION_RULE})
"""For a `SubscriptionName` whose parts stand beside the other fields."""
NAMESPACE_RULE = Rule(decode=partial(check_name_part, "namespace"))

# Topics


def _subject(text: str) -> str | None:
    return member_name("schema subject", text) if text else None


def _check_partitions(count: int) -> None:
    if not 1 <= count <= PARTITIONS_MAX:
        raise InvalidRequestError(f"{count} partitions cannot be: use 1 to {PARTITIONS_MAX}")


def _lenient_name(text: str) -> TopicName:
    """A name from a broker, unchecked: the original allows some that our grammar refuses."""
    namespace, _, local = text.removeprefix("/").partition("/")
    return TopicName(namespace, local)


_DELIVERY = {DispatchStrategy.RELIABLE: "Reliable", DispatchStrategy.NON_RELIABLE: "NonReliable"}
_INFO_RULES: dict[str, str | Rule] = {
    "topic": Rule(name="name", decode=_lenient_name),
    "is_plain": Rule(spread=(lambda _: False, lambda _: {})),  # the original's messages have no room for it
    "strategy": Rule(
        name="delivery",
        decode=lambda text: DispatchStrategy.RELIABLE if text == "Reliable" else DispatchStrategy.NON_RELIABLE,
        encode=_DELIVERY.__getitem__,
    ),
}

CREATE_TOPIC = record(
    CreateTopic, pb.NewTopicRequest, topic="name", strategy="dispatch_strategy", schema_subject=Rule(decode=_subject)
)
CREATE_PARTITIONED_TOPIC = record(
    CreatePartitionedTopic,
    pb.PartitionedTopicRequest,
    base="base_name",
    partitions=Rule(check=_check_partitions),
    strategy="dispatch_strategy",
    schema_subject=Rule(decode=_subject),
)
TOPIC = single(pb.TopicRequest, "name", TopicName)
"""Also a DescribeTopicRequest, which has the same layout."""
UNSUBSCRIBE = record(Unsubscribe, pb.SubscriptionRequest, subscription=SUBSCRIPTION_RULE)
DONE: Codec[bool | None] = Codec(pb.TopicResponse, attrgetter("success"), lambda _: {"success": True})
"""A TopicResponse, a SubscriptionResponse or a NamespaceResponse, which have one layout.

It is always encoded as a success: a call that does not succeed fails with a status.
"""
TOPIC_INFO = record(TopicInfo, pb.TopicInfo, **_INFO_RULES)
TOPICS = listing(pb.TopicInfoListResponse, "topics", TopicInfo)
TOPIC_DETAILS = record(
    TopicDetails,
    pb.DescribeTopicResponse,
    info=Rule(flat=_INFO_RULES),
    schema_subject=Rule(decode=lambda text: text or None),
)
SUBSCRIPTIONS = listing(pb.SubscriptionListResponse, "subscriptions", str)

# Policies of subscriptions

FAILURE_POLICY_MESSAGE = record(
    FailurePolicy,
    pb.SubscriptionFailurePolicy,
    backoff="backoff_strategy",
    dead_letter_topic=Rule(decode=lambda text: topic_name(text) if text else None),
    poison="poison_policy",
)
SET_FAILURE_POLICY = record(
    SetFailurePolicy,
    pb.SetSubscriptionFailurePolicyRequest,
    name=NAME_RULE,
    policy=Rule(
        name="failure_policy",
        missing="the request has no failure_policy: send the whole policy, it replaces the one set",
    ),
)
SUBSCRIPTION = record(SubscriptionName, pb.GetSubscriptionFailurePolicyRequest, subscription=SUBSCRIPTION_RULE)
"""Also a GetSubscriptionDispatchConfigRequest, which has the same layout."""
FAILURE_POLICY = row(
    pb.GetSubscriptionFailurePolicyResponse, failure_policy=FailurePolicy | None, subscription_type=SubscriptionType
)
"""The policy that was set, if any, and the subscription's type: None, as 0, while there is no subscription."""


def _window_message(window: int) -> pb.SubscriptionDispatchConfig:
    return pb.SubscriptionDispatchConfig(max_unacked_messages=window)


SET_DISPATCH_WINDOW = record(
    SetDispatchWindow,
    pb.SetSubscriptionDispatchConfigRequest,
    name=NAME_RULE,
    window=Rule(
        name="dispatch_config",
        decode=lambda config: check_window(config.max_unacked_messages),
        encode=_window_message,
        missing="the request has no dispatch_config: send max_unacked_messages in it",
    ),
)
DISPATCH_WINDOW: Codec[int | None] = single(
    pb.GetSubscriptionDispatchConfigResponse,
    "dispatch_config",
    int | None,
    Rule(decode=attrgetter("max_unacked_messages"), encode=_window_message),
)

# Namespaces


def _policies(message: pb.PolicyResponse) -> NamespacePolicies:
    """JSON in protobuf; a limit that it does not name is none."""
    try:
        found = decode_json(message.policies)
    except ValueError:
        raise undecodable(pb.PolicyResponse) from None
    limits = found if isinstance(found, dict) else {}
    return NamespacePolicies(**{field.name: _number(limits.get(field.name)) for field in fields(NamespacePolicies)})


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


NAMESPACE = single(pb.NamespaceRequest, "name", str, NAMESPACE_RULE)
NAMESPACES = listing(pb.NamespaceListResponse, "namespaces", str)
NAMESPACE_TOPICS = listing(
    pb.TopicListResponse,
    "topics",
    TopicName,
    Rule(decode=lambda name: topic_name(f"/{name.removeprefix('/')}"), encode=lambda name: str(name)[1:]),
)
"""Their names have no leading slash."""
POLICIES = Codec(pb.PolicyResponse, _policies, lambda limits: {"policies": json.dumps(asdict(limits))})

# Brokers and the cluster

_NO_LEADER = "not_found"


def _check_broker_id(text: str) -> None:
    if not text:
        raise InvalidRequestError("the broker id is empty: list the brokers to see their ids")


def _check_address(text: str) -> None:
    if not text or len(text) > NODE_ADDRESS_BYTES_MAX:
        raise InvalidRequestError("a node is added by the address of its Raft port: give host:port")


def _check_node(number: int) -> None:
    if not number:
        raise InvalidRequestError("0 is no node: the status of the cluster lists the ids of its nodes")


BROKER = single(pb.BrokerRequest, "broker_id", str, Rule(check=_check_broker_id))
UNLOAD_BROKER = record(UnloadBroker, pb.UnloadBrokerRequest, broker_id=Rule(check=_check_broker_id))
BROKER_UNLOADED = record(UnloadedBroker, pb.UnloadBrokerResponse)
ACTIVATE_BROKER = record(ActivateBroker, pb.ActivateBrokerRequest, broker_id=Rule(check=_check_broker_id))
BROKER_INFO = record(
    BrokerInfo,
    pb.BrokerInfo,
    broker_url="broker_addr",
    role="broker_role",
    status="broker_status",
    admin_url="admin_addr",
    metrics_url="metrics_addr",
)
BROKERS = listing(pb.BrokerListResponse, "brokers", BrokerInfo)
LEADER: Codec[str | None] = Codec(
    pb.BrokerResponse,
    lambda message: None if message.leader in {"", _NO_LEADER} else message.leader,
    lambda broker_id: {"leader": broker_id or _NO_LEADER},
)
CLUSTER_STATUS = record(RaftStatus, pb.ClusterStatusResponse)
ADD_NODE = record(AddNode, pb.AddNodeRequest, address=Rule(name="addr", check=_check_address))
NODE = single(pb.PromoteNodeRequest, "node_id", str, Rule(check=_check_node))
"""Also a RemoveNodeRequest, which has the same layout."""
NODE_ADDED: Codec[tuple[bool, str, str]] = row(pb.AddNodeResponse, success=bool, node_id=str, message=str)
NODE_CHANGED: Codec[tuple[bool, str]] = row(pb.PromoteNodeResponse, success=bool, message=str)
"""Success, and the broker's remark: a PromoteNodeResponse or a RemoveNodeResponse."""

# Balance of load


def _read_balance(message: pb.ClusterBalanceResponse) -> ClusterBalance:
    mean = message.mean_load
    return ClusterBalance(
        strategy=message.assignment_strategy.lower().replace("weightedload", "weighted_load"),
        figures=BalanceFigures(
            cv=message.coefficient_of_variation,
            band=band_of(message.coefficient_of_variation).value,
            peak_to_average=message.max_load / mean if mean else 1.0,
            mean=mean,
            highest=message.max_load,
            lowest=message.min_load,
            deviation=message.std_deviation,
        ),
        brokers=tuple(
            BrokerBalance(
                broker_id=str(one.broker_id),
                is_known=True,
                score=one.load,
                topics=one.topic_count,
                status="overloaded" if one.is_overloaded else "underloaded" if one.is_underloaded else "normal",
            )
            for one in message.brokers
        ),
        automatic=AutomaticBalance(),
        now_ms=0,
    )


def _balance_fields(balance: ClusterBalance) -> dict[str, object]:
    figures = balance.figures
    brokers = [
        pb.BrokerLoadInfo(
            broker_id=int(one.broker_id),
            load=one.score,
            topic_count=one.topics,
            is_overloaded=one.status == "overloaded",
            is_underloaded=one.status == "underloaded",
        )
        for one in balance.brokers
    ]
    return {
        "coefficient_of_variation": figures.cv,
        "mean_load": figures.mean,
        "max_load": figures.highest,
        "min_load": figures.lowest,
        "std_deviation": figures.deviation,
        "broker_count": len(brokers),
        "brokers": brokers,
        "assignment_strategy": "".join(part.capitalize() for part in balance.strategy.split("_")),
    }


def _triggered_fields(answer: TriggeredRebalance) -> dict[str, object]:
    moves = [
        pb.ProposedMove(
            topic_name=move.topic,
            from_broker=int(move.source),
            to_broker=int(move.target),
            estimated_load=move.source_before - move.source_after,
            reason="LoadImbalance",
        )
        for move in answer.proposed
    ]
    return {
        "success": answer.success,
        "moves_executed": answer.moves_executed,
        "proposed_moves": moves,
        "error_message": answer.message,
    }


CLUSTER_BALANCE_OF = Unread(pb.ClusterBalanceRequest)
CLUSTER_BALANCE = Codec(pb.ClusterBalanceResponse, _read_balance, _balance_fields)
TRIGGER_REBALANCE = record(TriggerRebalance, pb.RebalanceRequest, moves_max="max_moves")
REBALANCE_TRIGGERED: Codec[TriggeredRebalance] = Codec(
    pb.RebalanceResponse,
    lambda message: TriggeredRebalance(
        success=message.success, moves_executed=message.moves_executed, message=message.error_message
    ),
    _triggered_fields,
)
