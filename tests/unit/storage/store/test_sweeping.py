"""Which files in a topic's folder nobody needs."""

from danube.metadata.records.storage import EpochRange, TopicStorage
from danube.storage.flush.flush_plan import epochs_after
from danube.storage.flush.orphans import (
    highest_manifest_version,
    manifest_versions_of,
    of_manifest_version,
    orphans,
    unfinished,
)
from danube.storage.segment.manifest import Manifest, Segment, segment_name

SEGMENT = Segment(0, 5, 3, 0, 0, 1, 10, 20)
MANIFEST = Manifest(topic_id=7, version=4, end_offset=5, segments=(SEGMENT,))
NAME = segment_name(7, SEGMENT).rpartition("/")[2]


def test_what_the_newest_manifest_names_is_kept_and_what_is_older_goes() -> None:
    names = [NAME, "0000000004.manifest", "0000000003.manifest", f"{0:020d}-0000000002.segment"]
    assert orphans(names, MANIFEST) == ["segments/7/0000000003.manifest", f"segments/7/{0:020d}-0000000002.segment"]


def test_what_is_of_a_later_generation_may_be_under_way() -> None:
    assert orphans(["0000000005.manifest", f"{5:020d}-0000000005.segment"], MANIFEST) == []


def test_files_of_other_names_are_left_alone() -> None:
    assert orphans(["notes.txt", "0000000001.manifest.new", "1.manifest"], MANIFEST) == []


def test_the_highest_generation_counts_segments_and_manifests() -> None:
    assert highest_manifest_version([]) == 0
    assert highest_manifest_version(["0000000002.manifest", f"{5:020d}-0000000009.segment", "x"]) == 9


def test_each_epoch_has_generations_of_its_own_and_later_ones_are_higher() -> None:
    alone, first, second = (
        manifest_versions_of(TopicStorage(7, epochs=epochs))
        for epochs in ((), (EpochRange(1, 9, 0, 5),), (EpochRange(1, 9, 0, 5), EpochRange(2, 8, 5)))
    )
    assert alone.start == 0
    assert (alone.stop, first.stop) == (first.start, second.start)
    names = [f"{one.start + 3:010d}.manifest" for one in (alone, first, second)]
    assert [highest_manifest_version(names, one) for one in (alone, first, second)] == [
        one.start + 3 for one in (alone, first, second)
    ]


def test_the_files_of_one_generation_are_found() -> None:
    names = ["0000000002.manifest", f"{5:020d}-0000000002.segment", "0000000003.manifest", "x"]
    assert of_manifest_version(names, 2) == names[:2]


def test_segments_above_every_manifest_are_of_flushes_that_died_and_of_no_other_owner() -> None:
    record = TopicStorage(7, 4)
    names = [
        "0000000004.manifest",
        *(f"{5:020d}-{version:010d}.segment" for version in (4, 5, 6, 1 << 32)),
    ]
    assert unfinished(names, record) == names[2:4]
    assert unfinished([*names, "0000000005.manifest"], record) == names[3:4]
    assert unfinished(names[1:], TopicStorage(7, 5)) == names[3:4]


def test_epochs_that_are_all_in_segments_are_told_of_no_more_but_the_newest_always_is() -> None:
    epochs = (EpochRange(1, 9, 0, 5), EpochRange(2, 8, 5, 7), EpochRange(3, 9, 7, 7))
    record = TopicStorage(7, epochs=epochs)
    assert epochs_after(record, 4) == epochs
    assert epochs_after(record, 5) == epochs[1:]
    assert epochs_after(record, 100) == epochs[2:]
    assert epochs_after(TopicStorage(7), 100) == ()
