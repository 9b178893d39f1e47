"""Next step for the cause of a lag or of an incident, as a sentence. Pure."""

from collections.abc import Mapping
from shlex import quote

from danube.model.lag.alerts import IncidentCause
from danube.model.lag.verdict import LagCause

_RESTART = "restart that consumer, and look there for what it waits for: danube-admin topics connections {topic}"
_ERRORS = "look at the consumer's errors for that message: danube-admin topics peek {topic} --start {offset} --count 1"
_REFUSES = "look at the consumer's errors: it fails on most messages, and they are sent again"
_START = (
    "start a consumer, unless one comes at set times; if nobody needs the messages, delete the subscription:"
    " danube-admin topics unsubscribe {topic} -s {subscription}"
)
_KEEP = "keep unread messages: danube-admin topics set-retention {topic} --keeps-unread"
_RETRY = (
    "mend the consumer, then send them again: danube-admin topics retry-blocked {topic} -s {subscription};"
    " or give them up with topics skip"
)
_LIMIT = "raise the limit above what arrives: danube-admin topics set-policies {topic} --max-subscription-dispatch-rate"
_MORE = "add consumers (shared, key_shared) or partitions"

NEXT_STEPS: Mapping[str, str] = {
    LagCause.DATA_LOSS: _KEEP,
    LagCause.MEMBER_STUCK: _RESTART,
    LagCause.STUCK: _RESTART,
    IncidentCause.CONSUMER_STUCK: _RESTART,
    LagCause.BLOCKED: _RETRY,
    LagCause.REWOUND: "check that the seek back was intended",
    LagCause.NOBODY_READS: _START,
    IncidentCause.CONSUMER_GONE: _START,
    LagCause.POISON: _ERRORS,
    IncidentCause.POISON_MESSAGE: _ERRORS,
    LagCause.STORM: _REFUSES,
    LagCause.BACK_OFF: _REFUSES,
    IncidentCause.REDELIVERY_STORM: _REFUSES,
    LagCause.THROTTLED: _LIMIT,
    LagCause.NOT_SENT: "restart the consumer: it is attached and has stopped receiving",
    LagCause.TOO_SLOW: _MORE,
    IncidentCause.CONSUMER_SLOW: _MORE,
    LagCause.CATCHING_UP: "wait: it clears by itself",
    IncidentCause.PRODUCER_BURST: "wait if it was a burst; if more arrives from now on, " + _MORE,
    IncidentCause.REBALANCE: "check that its consumers have found it there: danube-admin topics connections {topic}",
    IncidentCause.BROKER_DOWN: "start the broker again: danube-admin brokers list",
}
"""By the words of both kinds of causes."""


def next_step(cause: str, topic: str, subscription: str, offset: int | None) -> str:
    """The sentence, with the command where there is one."""
    names = {"topic": quote(topic), "subscription": quote(subscription)}
    return NEXT_STEPS[cause].format(**names, offset=0 if offset is None else offset)
