"""Each verdict says which rule fired and with which numbers."""

from dataclasses import replace

import pytest

from danube.model.lag.evidence import evidence_of
from danube.model.lag.rules import judge
from danube.model.lag.verdict import LagVerdict
from tests.unit.model.lag_cases import AT_S, CASES, POLICY, Case, ms

STILL = "a consumer is there, and the position stood at 40 at 10 looks"
SAID = {
    "nobody ever read": "no consumer was seen, and 100 messages wait",
    "the consumer left 50 s ago": "no consumer for 50 s, longer than it had read before",
    "a seek back": "the position went back, stands at 105 and has not come forward again",
    "stuck": f"{STILL}; 10 messages in flight, none acknowledged in 45 s",
    "too slow": "the lag does not fall so that it clears within 10 m; 180 arrived, 90 acknowledged in 45 s",
    "a trivial lag": "the oldest unread message is 0.2 s old",
    "a short history": "seen at 4 of 10 looks: ask again in 5 s;"
    " 1 consumer attached, nothing in flight, nothing acknowledged in 15 s",
    "silent": "no telemetry for 2 m 01 s: its broker is down or does not publish any",
    "poison": f"{STILL}; 6 messages came back and 0 were acknowledged in 45 s",
    "a message crashes each consumer": f"{STILL}; 0 messages came back and 0 were acknowledged in 45 s,"
    " the one at 40 failed 3 times; consumers left without an answer to 9 messages",
    "blocked": f"{STILL}; 1 message failed too often and what follows waits:"
    " a retry sends them again, a skip gives them up",
    "retention deletes what nobody reads": "no consumer was seen, and 200 messages wait;"
    " retention deleted 90 unread messages just now, 90 in all",
    "retention will delete unread messages": "the lag does not fall so that it clears within 10 m;"
    " 180 arrived, 90 acknowledged in 45 s; unread messages will be deleted in 3 m 20 s at this rate",
    "one member is dead": f"{STILL}; consumer 'worker-2' at 10.0.0.8:5000 has 10 messages from offset 40 and answered"
    " none for 1 m 20 s, while others acknowledged 90 in 45 s",
    "two members are dead": f"{STILL}; consumers worker-2 at 10.0.0.8:5000 and worker-3 at 10.0.0.9:5000 have"
    " 15 messages from offset 40 and answered none for 1 m, while others acknowledged 90 in 45 s",
    "held back by its limit": "the lag does not fall so that it clears within 10 m; its limit of 5 messages/s"
    " holds it back, and 10.0/s arrive: raise max_subscription_dispatch_rate above 10",
    "back-off": f"{STILL}; 4 messages in back-off, 1 in flight",
}


@pytest.mark.parametrize("case", [case for case in CASES if case.name in SAID], ids=lambda case: case.name)
def test_evidence_has_the_numbers_of_the_rule_and_of_the_cause(case: Case) -> None:
    assert evidence_of(lag_of(case.name), POLICY, ms(AT_S)) == SAID[case.name]


def test_there_is_evidence_for_every_verdict() -> None:
    for case in CASES:
        text = evidence_of(lag_of(case.name), POLICY, ms(AT_S))
        assert text
        assert "None" not in text, case.name


def test_large_numbers_are_easy_to_read() -> None:
    verdict = replace(lag_of("nobody ever read"), lag_messages=56_407)
    assert evidence_of(verdict, POLICY, ms(AT_S)) == "no consumer was seen, and 56,407 messages wait"


def lag_of(name: str) -> LagVerdict:
    (case,) = (each for each in CASES if each.name == name)
    verdict = judge(case.observations, ms(AT_S), POLICY)
    assert verdict is not None
    return verdict
