"""A reader of telemetry made from `docs/formats/telemetry.md` alone: it uses nothing of ours."""

import json
from typing import Any

Record = dict[str, Any]
Thing = tuple[str, str, str | None]
"""Broker, topic, and subscription or None."""


def read(record: bytes) -> Record | None:
    """The record; None for one that a reader of version 1 skips."""
    fields: Record = json.loads(record)
    known = fields["version"] == 1 and fields["kind"] in {"broker", "topic", "subscription"}
    return fields if known else None


class Picture:
    """What the records up to now say: the newest of each topic and subscription, and of each broker."""

    def __init__(self) -> None:
        self.things: dict[Thing, Record] = {}
        self.brokers: dict[str, Record] = {}
        self.gaps = 0
        self._newest: dict[str, tuple[str, int]] = {}
        """Of each broker: start and sequence."""
        self._round_ended: dict[str, tuple[str, int]] = {}

    def apply(self, record: Record) -> None:
        broker, start, sequence = record["broker_id"], record["start_id"], record["sequence"]
        newest_start, newest = self._newest.get(broker, (start, sequence - 1))
        expected = newest + 1 if newest_start == start else 0
        if sequence < expected:
            return
        self.gaps += sequence > expected
        self._newest[broker] = (start, sequence)
        if record["kind"] == "broker":
            self.brokers[broker] = record
            if record["full"]:
                self._end_round(broker, start, sequence)
        elif record["gone"]:
            self.things.pop(thing_of(record), None)
        else:
            self.things[thing_of(record)] = record

    def _end_round(self, broker: str, start: str, sequence: int) -> None:
        """What no record since the end of the round before spoke of is served no longer."""
        ended_start, ended = self._round_ended.get(broker, (start, -1))
        since = ended if ended_start == start else -1
        for thing, record in list(self.things.items()):
            if thing[0] == broker and (record["start_id"] != start or record["sequence"] < since):
                del self.things[thing]
        self._round_ended[broker] = (start, sequence)


def thing_of(record: Record) -> Thing:
    return record["broker_id"], record["topic"], record.get("subscription")
