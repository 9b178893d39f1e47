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
    /storage/topics/{topic_id}                               the topic's owner, and where its messages are
    /storage/deleted/{topic_id}                              a deleted topic whose files may still be there
    /storage/lost/{topic_id}                                 a log on a lost disk, whose topic has started anew
    /storage/journals/{journal_id}                           a journal of a shared folder that topics may begin in
    /cluster/id                                              what tells this metadata from that of any other cluster
    /cluster/restored                                        the backup that this metadata was restored from
    /cluster/leader                                          the broker that decides for all, while its lease lasts
    /cluster/register/{broker_id}                            a broker that runs, while its lease lasts
    /cluster/storage                                         where the brokers keep messages: the mode of all of them
    /cluster/load/{broker_id}                                the load of a broker, while its lease lasts
    /brokers/{broker_id}                                     a broker that topics leave, and that gets no new ones
    /balance/rules/{kind}/{name}                             a pin, or an exclusion from rebalances
    /balance/automatic                                       the automatic mode, where it was set at run time
    /balance/rebalances/{rebalance_id}                       a rebalance that runs or ran
    /balance/running                                         the one that runs: at most one does
    /schemas/subjects/{subject}                              a subject: its id, its mode, its last version
    /schemas/versions/{subject}/{version}                    a version, or what is left of a deleted one
    /schemas/ids/{schema_id}                                 the subject that has this id
    /schemas/numbers/{number}                                the version that has this number, across all subjects
    /schemas/uses/{schema_id}/{version}/{topic}              the last use of a version, by topic
    /schemas/settings                                        the compatibility mode of subjects that have none
    /analytics/schedules/{schedule}                          a schedule of an analytics job
    /analytics/runner                                        the runner of schedules, while its lease lasts
    /connect/runners/{runner}                                the connectors of a runner, while its lease lasts
    /connect/wishes/{connector}                              what administrators want of a connector

    /auth/roles/{role}
    /auth/bindings/{scope}/{resource}/{binding}              the resource of the scope cluster is `*`
    /auth/revocations/{revocation}
    /auth/keys/{key}                                         the digest of an API key

The roots `/leases` and `/ownership` are kept free for what their names say.
"""

import re
from collections.abc import Callable
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
DEPARTED_TOPICS = "/storage/departed"
LOST_LOGS = "/storage/lost"
STORED_JOURNALS = "/storage/journals"
CLUSTER = "/cluster"
CLUSTER_ID = f"{CLUSTER}/id"
RESTORED = f"{CLUSTER}/restored"
LEADER = f"{CLUSTER}/leader"
REGISTERED = f"{CLUSTER}/register"
STORAGE_MODE = f"{CLUSTER}/storage"
LOADS = f"{CLUSTER}/load"
DRAINED_BROKERS = "/brokers"
BALANCE = "/balance"
BALANCE_RULES = f"{BALANCE}/rules"
AUTOMATIC_BALANCE = f"{BALANCE}/automatic"
REBALANCES = f"{BALANCE}/rebalances"
RUNNING_REBALANCE = f"{BALANCE}/running"
SCHEMAS = "/schemas"
SCHEMA_SUBJECTS = f"{SCHEMAS}/subjects"
SCHEMA_VERSIONS = f"{SCHEMAS}/versions"
SCHEMA_IDS = f"{SCHEMAS}/ids"
SCHEMA_NUMBERS = f"{SCHEMAS}/numbers"
SCHEMA_USES = f"{SCHEMAS}/uses"
SCHEMA_SETTINGS = f"{SCHEMAS}/settings"
ANALYTICS = "/analytics"
SCHEDULES = f"{ANALYTICS}/schedules"
SCHEDULE_RUNNER = f"{ANALYTICS}/runner"
CONNECT = "/connect"
CONNECT_RUNNERS = f"{CONNECT}/runners"
CONNECT_WISHES = f"{CONNECT}/wishes"
SECURITY = "/auth"
SECURITY_ROLES = f"{SECURITY}/roles"
SECURITY_BINDINGS = f"{SECURITY}/bindings"
SECURITY_REVOCATIONS = f"{SECURITY}/revocations"
SECURITY_API_KEYS = f"{SECURITY}/keys"

TOPIC_ID_COUNTER = f"{COUNTERS}/topic_id"
"""The last topic id given out."""
PLAN_COUNTER = f"{COUNTERS}/plans"
"""Number of plans ever made."""
SCHEMA_ID_COUNTER = f"{COUNTERS}/schema_id"
"""The last id given to a subject."""
SCHEMA_NUMBER_COUNTER = f"{COUNTERS}/schema_number"
"""The last number given to a version of any subject; each registration moves it."""

_NUMBER = re.compile(r"[1-9][0-9]{0,19}|0")  # as it is written here: each topic has one key


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


def _foreign(root: str, key: str) -> MetadataError:
    return MetadataError(f"metadata key {key!r} is not one of {root}: another program wrote to this store")


def _named(root: str) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """The functions that build the key of a name, and parse it. Parsing raises MetadataError, here and below."""
    return lambda name: _path(root, name), lambda key: _parts(root, key, 1)[0]


def _numbered(root: str) -> tuple[Callable[[int], str], Callable[[str], int]]:
    """As `_named`, for numbers."""

    def parse(key: str) -> int:
        (text,) = _parts(root, key, 1)
        if not _NUMBER.fullmatch(text):
            raise _foreign(root, key)
        return int(text)

    return lambda number: _path(root, str(number)), parse


def _of_topic(root: str) -> Callable[[TopicName], str]:
    """The function that builds the key of a topic, or the prefix of what belongs to it."""
    return lambda name: _path(root, name.namespace, name.local)


namespace, parse_namespace = _named(NAMESPACES)
plan, parse_plan = _named(PLANS)
stored_topic, parse_stored_topic = _numbered(STORED_TOPICS)
deleted_topic, parse_deleted_topic = _numbered(DELETED_TOPICS)


def departed_topics_of(broker_id: int) -> str:
    """The prefix of topics whose logs another broker's disk has, and this broker's is to remove."""
    return _path(DEPARTED_TOPICS, str(broker_id))


def departed_topic(broker_id: int, topic_id: int) -> str:
    """The key of one of them."""
    return _path(DEPARTED_TOPICS, str(broker_id), str(topic_id))


def parse_departed_topic(key: str) -> int:
    """The topic's id. Raises MetadataError."""
    _, topic_id = _parts(DEPARTED_TOPICS, key, 2)
    if not _NUMBER.fullmatch(topic_id):
        raise _foreign(DEPARTED_TOPICS, key)
    return int(topic_id)


lost_log, parse_lost_log = _numbered(LOST_LOGS)
stored_journal, parse_stored_journal = _numbered(STORED_JOURNALS)
registered_broker, parse_registered_broker = _numbered(REGISTERED)
drained_broker, parse_drained_broker = _numbered(DRAINED_BROKERS)
load, parse_load = _numbered(LOADS)
rebalance, parse_rebalance = _named(REBALANCES)
schema_subject, parse_schema_subject = _named(SCHEMA_SUBJECTS)
schema_id, parse_schema_id = _numbered(SCHEMA_IDS)
schema_number, parse_schema_number = _numbered(SCHEMA_NUMBERS)
schedule, parse_schedule = _named(SCHEDULES)
connect_runner, _ = _named(CONNECT_RUNNERS)
connect_wish, _ = _named(CONNECT_WISHES)
topic = _of_topic(TOPICS)
partitioned = _of_topic(PARTITIONED)
producer_epoch = _of_topic(PRODUCERS)
subscriptions_of = _of_topic(SUBSCRIPTIONS)
consumers_of_topic = _of_topic(CONSUMERS)


def topics_of(namespace_name: str) -> str:
    """The prefix of a namespace's topics."""
    return _path(TOPICS, namespace_name)


def parse_topic(key: str) -> TopicName:
    """The topic that a key of its family names. Raises MetadataError."""
    return TopicName(*_parts(TOPICS, key, 2))


def parse_partitioned(key: str) -> TopicName:
    """The partitioned topic that a key of its family names. Raises MetadataError."""
    return TopicName(*_parts(PARTITIONED, key, 2))


def subscription(topic_name: TopicName, name: str) -> str:
    """The key of a subscription."""
    return _path(SUBSCRIPTIONS, topic_name.namespace, topic_name.local, name)


def consumer(topic_name: TopicName, subscription_name: str, name: str) -> str:
    """The key of a consumer."""
    return _path(CONSUMERS, topic_name.namespace, topic_name.local, subscription_name, name)


def balance_rule(kind: str, name: str) -> str:
    """The key of a pin or an exclusion."""
    return _path(BALANCE_RULES, kind, name)


def consumers_of(topic_name: TopicName, subscription_name: str) -> str:
    """The prefix of a subscription's consumers."""
    return _path(CONSUMERS, topic_name.namespace, topic_name.local, subscription_name)


def schema_versions_of(subject: str) -> str:
    """The prefix of a subject's versions."""
    return _path(SCHEMA_VERSIONS, subject)


def schema_version(subject: str, version: int) -> str:
    """The key of a version."""
    return _path(SCHEMA_VERSIONS, subject, str(version))


def parse_schema_version(key: str) -> tuple[str, int]:
    """The subject and the version that a key of its family names. Raises MetadataError."""
    subject, version = _parts(SCHEMA_VERSIONS, key, 2)
    if not _NUMBER.fullmatch(version):
        raise _foreign(SCHEMA_VERSIONS, key)
    return subject, int(version)


def schema_uses_of(identity: int, version: int) -> str:
    """The prefix of a version's uses."""
    return _path(SCHEMA_USES, str(identity), str(version))


def schema_use(identity: int, version: int, topic_name: TopicName) -> str:
    """The key of a version's use by a topic."""
    return _path(SCHEMA_USES, str(identity), str(version), str(topic_name))


def parse_schema_use(key: str) -> TopicName:
    """The topic that a key of its family names. Raises MetadataError."""
    return TopicName.parse(_parts(SCHEMA_USES, key, 3)[2])


def security_role(name: str) -> str:
    """The key of a role."""
    return _path(SECURITY_ROLES, name)


def security_binding(scope: str, resource: str, binding_id: str) -> str:
    """The key of a binding."""
    return _path(SECURITY_BINDINGS, scope, resource or "*", binding_id)


def security_revocation(revocation_id: str) -> str:
    """The key of a revocation."""
    return _path(SECURITY_REVOCATIONS, revocation_id)


def security_api_key(key_id: str) -> str:
    """The key of an API key."""
    return _path(SECURITY_API_KEYS, key_id)
