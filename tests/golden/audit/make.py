"""Writes the records of the audit log version 1 beside this module: `python -m tests.golden.audit.make`.

Run it for a new version only, into a new folder: files of a version that was released are never written again.
"""

from pathlib import Path

from danube.model.plans.plan import Caller, Effect, Face
from danube.model.records.audit import GENESIS, AuditEntry, AuditRecord, Outcome, encode_record, next_record

FILE = Path(__file__).parent / "v1" / "records.jsonl"
_AT_MS = 1_750_000_000_123

ENTRIES = [
    AuditEntry(
        caller=Caller(who="ada@desk", face=Face.CLI),
        operation="list_topics",
        arguments={"namespace": "default"},
        effect=Effect.READ,
        outcome=Outcome.DONE,
    ),
    AuditEntry(
        caller=Caller(who="ada@desk", face=Face.MCP, client="some host 1.0"),
        operation="unsubscribe",
        arguments={"topic": "/default/orders", "subscription": 'größte "Rechnung"'},
        effect=Effect.DESTROY,
        outcome=Outcome.REFUSED,
        plan_id="plan-0123456789ab",
        error="PLAN_WAITS",
        detail="plan plan-0123456789ab waits for a person's approval",
    ),
    AuditEntry(
        caller=Caller(who="grace@ops", face=Face.WEB),
        operation="create_topic",
        arguments={"partitions": 3, "schema": None, "strict": True, "topic": "/default/\U0001f600"},
        effect=Effect.WRITE,
        outcome=Outcome.STARTED,
    ),
]


def records() -> list[AuditRecord]:
    """A chain of one record for each entry."""
    made: list[AuditRecord] = []
    for sequence, entry in enumerate(ENTRIES):
        previous = made[-1].hash if made else GENESIS
        at_ms = _AT_MS + sequence
        made.append(next_record(entry, sequence=sequence, at_ms=at_ms, keeper="4396499729479494592", previous=previous))
    return made


def lines() -> bytes:
    """The file: a record a line."""
    return b"".join(encode_record(record) + b"\n" for record in records())


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(lines())
