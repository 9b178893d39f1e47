"""Every behaviour that the original's suite asks of its storage has a test here.

Left out is what we do not have: the write buffer in Valkey, and object stores (`cloud_native_mode_smoke`, half of
`owner_change_continuity`). `warm_tier_read` reads from a tier between cache and object store: with us, from segments.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOG = "tests/contracts/test_topic_log.py"
TIER = "tests/contracts/test_segment_tier.py"
STORE = "tests/unit/storage/store"
CLUSTER = "tests/cluster/test_handover.py"
HANDOVER = "tests/unit/storage/takeover"

ROWS: dict[str, list[str]] = {
    "one_topic_one_subsc: what is appended is read in order": [
        f"{LOG}::test_records_come_back_in_the_order_in_which_they_were_appended"
    ],
    "one_topic_one_subsc: files are rotated, and put where they stay": [
        f"{STORE}/test_flushing_and_reading.py::test_a_cut_frees_the_journal_files_that_it_read"
    ],
    "one_topic_one_subsc: history goes over into what is live": [
        f"{LOG}::test_a_reader_of_history_goes_on_with_what_is_new_without_a_gap"
    ],
    "one_topic_one_subsc: a reader goes on in the middle": [
        f"{LOG}::test_a_reader_goes_on_in_the_middle",
        f"{LOG}::test_a_read_within_a_batch_answers_the_batch_that_holds_the_offset",
    ],
    "one_topic_one_subsc: a reader begins at the tail": [f"{LOG}::test_a_reader_at_the_tail_sees_only_what_is_new"],
    "one_topic_one_subsc: reading while it is written": [f"{LOG}::test_readers_and_a_writer_do_not_disturb_each_other"],
    "one_topic_one_subsc: large messages": [f"{LOG}::test_large_messages_come_back_as_they_were"],
    "one_topic_multiple_subsc: positions are independent": [
        f"{LOG}::test_readers_and_a_writer_do_not_disturb_each_other",
        f"{LOG}::test_a_cursor_is_found_again_after_a_restart",
    ],
    "one_topic_multiple_subsc: readers at the same time, at different speeds": [
        f"{LOG}::test_readers_and_a_writer_do_not_disturb_each_other"
    ],
    "one_topic_multiple_subsc: what is kept goes over into what is live for each": [
        f"{LOG}::test_a_reader_is_not_disturbed_when_everything_is_cut_under_it"
    ],
    "one_topic_multiple_subsc: readers at the tail, and mixed starts": [
        f"{LOG}::test_readers_and_a_writer_do_not_disturb_each_other"
    ],
    "multiple_topics_own_subsc: topics keep apart": [f"{LOG}::test_topics_keep_apart"],
    "multiple_topics_own_subsc: each topic is exported by itself": [
        f"{STORE}/test_quarantine.py::test_files_that_one_topic_holds_do_not_keep_the_others_from_being_cut"
    ],
    "multiple_topics_own_subsc: topics are written at the same time, under mixed loads": [
        f"{STORE}/test_model.py::test_whatever_happens_nothing_is_lost_moved_or_doubled"
    ],
    "multiple_topics_own_subsc: one factory, one log of writes": [
        "tests/unit/storage/test_journal.py::test_one_sync_serves_all_topics"
    ],
    "factory_multi_topic_isolation: segments of topics are in folders of their own": [
        f"{STORE}/test_sweeping.py::test_what_the_newest_manifest_names_is_kept_and_what_is_older_goes",
        f"{TIER}::test_a_deleted_folder_takes_its_files_along_and_no_others",
    ],
    "streams_handoff: from cache to live": [f"{LOG}::test_a_reader_at_the_tail_sees_only_what_is_new"],
    "streams_handoff: from files to cache to live": [
        f"{LOG}::test_a_reader_of_history_goes_on_with_what_is_new_without_a_gap"
    ],
    "streams_handoff: from segments to the journal": [
        f"{STORE}/test_reading_while_it_moves.py::test_a_reader_of_a_journal_file_that_is_cut_goes_on_in_the_segment"
    ],
    "streams_handoff: who begins later asks no segment": [
        f"{LOG}::test_a_reader_of_what_is_new_asks_no_disk",
    ],
    "wal_retention_test: what is too old goes and the start moves": [
        f"{STORE}/test_retention.py::test_the_oldest_segments_go_and_the_rest_is_read_on",
        f"{STORE}/test_retention.py::test_old_messages_that_are_in_the_open_journal_file_go_too",
    ],
    "wal_retention_test: topics are independent": [
        f"{LOG}::test_after_retention_readers_go_on_with_what_is_left",
    ],
    "wal_retention_test: reading goes on after it": [
        f"{LOG}::test_after_retention_readers_go_on_with_what_is_left",
        f"{STORE}/test_retention.py::test_a_topic_goes_on_after_retention_as_before",
    ],
    "local_mode_smoke: offsets go on after a reload": [
        f"{LOG}::test_after_a_restart_offsets_go_on_where_they_were",
        f"{STORE}/test_on_disk.py::test_storage_works_again_after_it_was_closed_in_the_middle_of_its_work",
    ],
    "shared_fs_mode_smoke: sealed by one, taken over by the next": [
        f"{HANDOVER}/test_moves.py::test_a_given_topic_goes_on_elsewhere_and_its_giver_keeps_the_others",
        f"{HANDOVER}/test_acquiring.py::test_a_taken_topic_goes_on_at_the_next_offset_with_all_that_was_stored",
    ],
    "shared_fs_mode_smoke: exported now and then while it is owned": [
        f"{STORE}/test_background.py::test_closed_journal_files_are_cut_after_a_while"
    ],
    "shared_fs_mode_smoke: found again by what metadata knows, without local files": [
        f"{HANDOVER}/test_acquiring.py::test_what_is_in_segments_is_not_looked_for_in_journals"
    ],
    "owner_change_continuity: many owners, contiguous offsets, nothing twice": [
        f"{HANDOVER}/test_acquiring.py::test_three_owners_in_a_row_lose_nothing_in_a_power_cut",
        f"{CLUSTER}::test_owners_are_killed_one_after_the_other_and_every_acknowledged_message_is_there",
    ],
    "delete_cleanup: deleting removes records and segments": [
        f"{STORE}/test_deleting.py::test_a_sweep_removes_the_files_of_deleted_topics_and_of_no_others",
        f"{LOG}::test_a_deleted_topic_leaves_the_others_as_they_are",
    ],
    "warm_tier_read: from cold to hot, from any offset": [
        f"{LOG}::test_a_reader_of_history_goes_on_with_what_is_new_without_a_gap",
        f"{LOG}::test_a_reader_goes_on_in_the_middle",
    ],
}


@pytest.mark.parametrize("row", ROWS)
def test_every_behaviour_of_the_original_has_a_test(row: str) -> None:
    missing = [test for test in ROWS[row] if test.partition("::")[2] not in names_in(test.partition("::")[0])]
    assert ROWS[row]
    assert not missing


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of the tests in a file."""
    module = ast.parse((ROOT / path).read_text())
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(function.name for function in functions if function.name.startswith("test_"))
