"""Every metadata key: built here, parsed here, nowhere else.

Names are percent-quoted, so any subscription or consumer name fits into one part of a path. Each family has a root of
its own, so that listing topics walks no subscriptions:

    /namespaces/{namespace}
    /topics/{namespace}/{topic}                              a plain topic or one partition
    /partitioned/{namespace}/{base}                          which partitions of `base` there are
    /subscriptions/{namespace}/{topic}/{subscription}
    /consumers/{namespace}/{topic}/{subscription}/{consumer}
    /counters/{name}
    /plans/{plan}
    /producers/{namespace}/{topic}                           the newest epoch of its exclusive producers
    /storage/topics/{topic_id}                               where the topic's messages are
    /storage/deleted/{topic_id}                              a deleted topic whose files may still be there
    /storage/journals/{journal_id}                           a journal of a shared folder that topics may begin in
    /cluster/id                                              what tells this metadata from that of any other cluster
    /cluster/restored                                        the backup that this metadata was restored from
    /cluster/leader                                          the broker that decides for all, while its lease lasts
    /cluster/register/{broker_id}                            a broker that runs, while its lease lasts

The roots `/brokers`, `/leases`, `/ownership`, `/schemas` and `/auth` are kept free for what their names say.
"""

import re
from urllib.parse import quote, unquote

from danube.model.errors import MetadataError
from danube.model.topic import TopicName

NAMESPACES = "/namespaces"
TOPICS = "/topics"
PARTITIONED = "/partitioned"
SUBSCRIPTIONS = "/subscriptions"
CONSUMERS = "/consumers"
COUNTERS = "/counters"
PLANS = "/plans"
PRODUCERS = "/producers"
STORED_TOPICS = "/storage/topics"
DELETED_TOPICS = "/storage/deleted"
STORED_JOURNALS = "/storage/journals"
CLUSTER = "/cluster"
CLUSTER_ID = f"{CLUSTER}/id"
RESTORED = f"{CLUSTER}/restored"
LEADER = f"{CLUSTER}/leader"
REGISTERED = f"{CLUSTER}/register"

TOPIC_ID_COUNTER = f"{COUNTERS}/topic_id"
"""The last topic id given out."""
PLAN_COUNTER = f"{COUNTERS}/plans"
"""How many plans were ever made."""

_NUMBER = re.compile(r"[1-9][0-9]{0,19}|0")  # as it is written here: each topic has one key


def namespace(name: str) -> str:
    """The key of a namespace."""
    return _path(NAMESPACES, name)


def parse_namespace(key: str) -> str:
    """The namespace that a key of its family names. Raises MetadataError."""
    return _parts(NAMESPACES, key, 1)[0]


def topic(name: TopicName) -> str:
    """The key of a topic."""
    return _path(TOPICS, name.namespace, name.local)


def parse_topic(key: str) -> TopicName:
    """The topic that a key of its family names. Raises MetadataError."""
    return TopicName(*_parts(TOPICS, key, 2))


def topics_of(namespace_name: str) -> str:
    """The prefix of a namespace's topics."""
    return _path(TOPICS, namespace_name)


def partitioned(base: TopicName) -> str:
    """The key that says which partitions of `base` there are; it is there exactly while one of them is."""
    return _path(PARTITIONED, base.namespace, base.local)


def subscription(topic_name: TopicName, name: str) -> str:
    """The key of a subscription."""
    return _path(SUBSCRIPTIONS, topic_name.namespace, topic_name.local, name)


def parse_subscription(key: str) -> tuple[TopicName, str]:
    """The topic and the subscription that a key of its family names. Raises MetadataError."""
    namespace_name, local, name = _parts(SUBSCRIPTIONS, key, 3)
    return TopicName(namespace_name, local), name


def subscriptions_of(topic_name: TopicName) -> str:
    """The prefix of a topic's subscriptions."""
    return _path(SUBSCRIPTIONS, topic_name.namespace, topic_name.local)


def consumer(topic_name: TopicName, subscription_name: str, name: str) -> str:
    """The key of a consumer."""
    return _path(CONSUMERS, topic_name.namespace, topic_name.local, subscription_name, name)


def parse_consumer(key: str) -> tuple[TopicName, str, str]:
    """The topic, the subscription and the consumer that a key of its family names. Raises MetadataError."""
    namespace_name, local, subscription_name, name = _parts(CONSUMERS, key, 4)
    return TopicName(namespace_name, local), subscription_name, name


def consumers_of(topic_name: TopicName, subscription_name: str) -> str:
    """The prefix of a subscription's consumers."""
    return _path(CONSUMERS, topic_name.namespace, topic_name.local, subscription_name)


def consumers_of_topic(topic_name: TopicName) -> str:
    """The prefix of the consumers of all of a topic's subscriptions."""
    return _path(CONSUMERS, topic_name.namespace, topic_name.local)


def counter(name: str) -> str:
    """The key of a counter."""
    return _path(COUNTERS, name)


def producer_epoch(topic_name: TopicName) -> str:
    """The key of the newest epoch of a topic's exclusive producers."""
    return _path(PRODUCERS, topic_name.namespace, topic_name.local)


def plan(plan_id: str) -> str:
    """The key of a plan."""
    return _path(PLANS, plan_id)


def parse_plan(key: str) -> str:
    """The plan that a key of its family names. Raises MetadataError."""
    return _parts(PLANS, key, 1)[0]


def stored_topic(topic_id: int) -> str:
    """The key of where a topic's messages are."""
    return _path(STORED_TOPICS, str(topic_id))


def parse_stored_topic(key: str) -> int:
    """The id of the topic that a key of its family names. Raises MetadataError."""
    return _number(STORED_TOPICS, key)


def deleted_topic(topic_id: int) -> str:
    """The key that says of a topic that it was deleted, until its files are gone."""
    return _path(DELETED_TOPICS, str(topic_id))


def parse_deleted_topic(key: str) -> int:
    """The id of the topic that a key of its family names. Raises MetadataError."""
    return _number(DELETED_TOPICS, key)


def stored_journal(journal_id: int) -> str:
    """The key of a journal in a shared folder."""
    return _path(STORED_JOURNALS, str(journal_id))


def parse_stored_journal(key: str) -> int:
    """The id of the journal that a key of its family names. Raises MetadataError."""
    return _number(STORED_JOURNALS, key)


def registered_broker(broker_id: int) -> str:
    """The key of a broker that runs."""
    return _path(REGISTERED, str(broker_id))


def parse_registered_broker(key: str) -> int:
    """The broker that a key of its family names. Raises MetadataError."""
    return _number(REGISTERED, key)


def _path(root: str, *names: str) -> str:
    return "/".join((root, *map(_quoted, names)))


def _quoted(name: str) -> str:
    if name in {".", ".."}:  # ZooKeeper refuses these two as parts of a path
        return name.replace(".", "%2E")
    return quote(name, safe="")


def _parts(root: str, key: str, count: int) -> list[str]:
    parts = key.removeprefix(f"{root}/").split("/")
    if not key.startswith(f"{root}/") or len(parts) != count or not all(parts):
        raise _foreign(root, key)
    return [unquote(part) for part in parts]


def _number(root: str, key: str) -> int:
    (text,) = _parts(root, key, 1)
    if not _NUMBER.fullmatch(text):
        raise _foreign(root, key)
    return int(text)


def _foreign(root: str, key: str) -> MetadataError:
    return MetadataError(f"metadata key {key!r} is not one of {root}: another program wrote to this store")
