"""Which files in a topic's folder nobody needs."""

from danube.storage.segment.manifest import Manifest, Segment, segment_name
from danube.storage.sweeping import highest_generation, orphans

SEGMENT = Segment(0, 5, 3, 0, 0, 1, 10, 20)
MANIFEST = Manifest(topic_id=7, generation=4, end_offset=5, segments=(SEGMENT,))
NAME = segment_name(7, SEGMENT).rpartition("/")[2]


def test_what_the_newest_manifest_names_is_kept_and_what_is_older_goes() -> None:
    names = [NAME, "0000000004.manifest", "0000000003.manifest", f"{0:020d}-0000000002.segment"]
    assert orphans(names, MANIFEST) == ["segments/7/0000000003.manifest", f"segments/7/{0:020d}-0000000002.segment"]


def test_what_is_of_a_later_generation_may_be_under_way() -> None:
    assert orphans(["0000000005.manifest", f"{5:020d}-0000000005.segment"], MANIFEST) == []


def test_files_of_other_names_are_left_alone() -> None:
    assert orphans(["notes.txt", "0000000001.manifest.new", "1.manifest"], MANIFEST) == []


def test_the_highest_generation_counts_segments_and_manifests() -> None:
    assert highest_generation([]) == 0
    assert highest_generation(["0000000002.manifest", f"{5:020d}-0000000009.segment", "x"]) == 9
