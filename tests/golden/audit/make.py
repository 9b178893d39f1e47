"""Writes the records of the audit log version 1 beside this module: `python -m tests.golden.audit.make`.

Records of one file have no `origin`, as they were written at first; those of the other say it.

Run it for a new version only, into a new folder: files of a version that was released are never written again.
"""

from pathlib import Path

from danube.model.plans.plan import Caller, Effect, Face
from danube.model.records.audit import GENESIS, AuditEntry, AuditRecord, Origin, Outcome, encode_record, next_record

FILE = Path(__file__).parent / "v1" / "records.jsonl"
ORIGINS_FILE = FILE.with_name("records-with-origin.jsonl")
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


def records(*, with_origin: bool = False) -> list[AuditRecord]:
    """A chain of one record for each entry."""
    made: list[AuditRecord] = []
    for sequence, entry in enumerate(ENTRIES):
        origin = list(Origin)[sequence % 2] if with_origin else None
        previous = made[-1].hash if made else GENESIS
        at_ms, keeper = _AT_MS + sequence, "4396499729479494592"
        made.append(next_record(entry, sequence=sequence, at_ms=at_ms, keeper=keeper, previous=previous, origin=origin))
    return made


def lines(*, with_origin: bool = False) -> bytes:
    """The file: a record a line."""
    return b"".join(encode_record(record) + b"\n" for record in records(with_origin=with_origin))


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(lines())
    ORIGINS_FILE.write_bytes(lines(with_origin=True))
