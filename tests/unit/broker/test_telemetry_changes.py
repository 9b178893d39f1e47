"""What is published when, decided without a broker; the stream is read by the reader made from the document."""

import json
from collections.abc import Mapping
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from danube.broker.telemetry.changes import Chosen, Entity, Selection, TelemetryChanges
from danube.model.records.telemetry import Stamp, TopicReading, encode_record
from tests.golden.telemetry.reader import Picture

ORDERS, BILLS, QUIET = "/default/orders", "/default/bills", "/system/telemetry"
TICK_S = 5.0
FULL_S = 60.0


def reading(topic: str, value: int) -> TopicReading:
    return TopicReading(topic, "1", "reliable", None, None, value, 0, 0, 0, 0)


def chosen(topic: str, value: int, *, full: bool = False, gone: bool = False) -> Chosen:
    return Chosen((topic, None), reading(topic, value), full, gone)


class Teller:
    """Ticks of a broker whose topics are names and values; what was published is read into a picture."""

    def __init__(self, records_max: int = 100) -> None:
        self.changes = TelemetryChanges(records_max=records_max, full_interval_s=FULL_S)
        self.now_s = 0.0
        self.reads = 0
        self.picture = Picture()
        self._sequence = 0

    def tick(self, topics: Mapping[str, int], *, stored: bool = True) -> Selection:
        self.now_s += TICK_S
        self.changes.begin()
        for topic, value in topics.items():
            self.changes.observe((topic, None), (value,), partial(self._read, topic, value))
        selection = self.changes.select(self.now_s)
        if stored and selection:
            self.changes.commit(selection)
            self._tell(selection)
        return selection

    def seen(self) -> dict[str, int]:
        return {record["topic"]: record["messages_in"] for record in self.picture.things.values()}

    def _read(self, topic: str, value: int) -> TopicReading:
        self.reads += 1
        return reading(topic, value)

    def _tell(self, selection: Selection) -> None:
        for each in selection.chosen:
            self._record(json.loads(encode_record(self._stamp(full=each.full, gone=each.gone), each.reading)))
        self._record({"kind": "broker", **self._closing(selection.ends_full_round)})

    def _record(self, record: dict[str, object]) -> None:
        self.picture.apply(record)
        self._sequence += 1

    def _closing(self, full: bool) -> dict[str, object]:
        return {"broker_id": "1", "start_id": "2", "sequence": self._sequence, "full": full, "gone": False}

    def _stamp(self, *, full: bool, gone: bool) -> Stamp:
        return Stamp(broker_id="1", start_id="2", sequence=self._sequence, at_ms=0, full=full, gone=gone)


def test_the_first_tick_is_a_full_round_of_everything() -> None:
    everything = (chosen(ORDERS, 1, full=True), chosen(QUIET, 2, full=True))
    assert Teller().tick({ORDERS: 1, QUIET: 2}) == Selection(everything, ends_full_round=True)


def test_a_broker_that_serves_nothing_has_full_rounds_too() -> None:
    assert Teller().tick({}) == Selection((), ends_full_round=True)


def test_nothing_is_published_between_full_rounds_while_nothing_changes() -> None:
    teller = Teller()
    sizes = [len(teller.tick({ORDERS: 1, BILLS: 1}).chosen) for _ in range(25)]
    assert sizes == [2, *[0] * 11, 2, *[0] * 11, 2]
    assert not teller.tick({ORDERS: 1, BILLS: 1})


def test_only_what_changed_is_published_and_read() -> None:
    teller = Teller()
    teller.tick({ORDERS: 1, BILLS: 1})
    assert teller.tick({ORDERS: 1, BILLS: 2}) == Selection((chosen(BILLS, 2),), ends_full_round=False)
    assert teller.reads == 3


def test_the_systems_own_topics_are_told_of_in_full_rounds_only() -> None:
    teller = Teller()
    told = [len(teller.tick({QUIET: tick}).chosen) for tick in range(13)]
    assert told == [1, *[0] * 11, 1]
    assert teller.seen() == {QUIET: 12}


def test_what_is_gone_is_published_once_more() -> None:
    teller = Teller()
    teller.tick({ORDERS: 1, BILLS: 1})
    assert teller.tick({BILLS: 1}).chosen == (chosen(ORDERS, 1, gone=True),)
    assert not teller.tick({BILLS: 1})
    assert teller.tick({ORDERS: 1, BILLS: 1}).chosen == (chosen(ORDERS, 1),)


def test_what_came_and_went_before_its_turn_is_never_spoken_of() -> None:
    teller = Teller(records_max=1)
    teller.tick({ORDERS: 1})
    teller.tick({ORDERS: 2, BILLS: 1})
    assert not teller.tick({ORDERS: 2})


def test_a_change_that_was_undone_before_its_turn_is_not_published() -> None:
    teller = Teller(records_max=1)
    for _ in range(2):
        teller.tick({ORDERS: 1, BILLS: 1})
    teller.tick({ORDERS: 2, BILLS: 2})
    assert not teller.tick({ORDERS: 2, BILLS: 1})


def test_what_was_not_stored_is_selected_again_with_what_changed_meanwhile() -> None:
    teller = Teller()
    teller.tick({ORDERS: 1, BILLS: 1}, stored=False)
    assert teller.tick({ORDERS: 1, BILLS: 2}) == Selection(
        (chosen(ORDERS, 1, full=True), chosen(BILLS, 2, full=True)), ends_full_round=True
    )


def test_more_than_the_bound_is_published_in_turns_and_nothing_starves() -> None:
    teller = Teller(records_max=2)
    names = [f"/default/t{number}" for number in range(6)]
    told: list[Entity] = []
    for tick in range(9):
        selection = teller.tick(dict.fromkeys(names, tick))
        assert len(selection.chosen) == 2
        told += [each.entity for each in selection.chosen]
    assert told == [(name, None) for name in names] * 3


def test_a_full_round_goes_on_over_ticks_and_ends_once() -> None:
    teller = Teller(records_max=2)
    topics = {f"/default/t{number}": 1 for number in range(5)}
    ends = [teller.tick(topics).ends_full_round for _ in range(13)]
    assert ends == [False, False, True, *[False] * 10]


TOPICS = (ORDERS, BILLS, "/default/a", "/default/b", QUIET)
WORLDS = st.lists(st.tuples(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 2)), st.booleans()), max_size=40)


@given(WORLDS, st.integers(1, 3))
def test_the_stream_always_tells_everythings_latest_state(worlds: list[tuple[dict[str, int], bool]], most: int) -> None:
    teller = Teller(records_max=most)
    topics: dict[str, int] = {}
    for topics, stored in worlds:
        selection = teller.tick(topics, stored=stored)
        assert len(selection.chosen) <= most
        assert teller.picture.gaps == 0
        for each in selection.chosen:
            assert each.gone is (each.entity[0] not in topics)
            assert each.gone or each.reading.messages_in == topics[each.entity[0]]  # type: ignore[union-attr]
    loud = {topic: value for topic, value in topics.items() if topic != QUIET}
    for _ in range(len(TOPICS)):
        teller.tick(topics)
    assert {topic: value for topic, value in teller.seen().items() if topic != QUIET} == loud
    for _ in range(int(FULL_S / TICK_S) + 2 * len(TOPICS)):
        teller.tick(topics)
    assert teller.seen() == topics
