"""Whatever the medium does to a data folder, no consumer gets a wrong byte and nothing is gone without a word.

`python -m lab.simulation --kind folders --seeds 500` tries more of it.
"""

import pytest

from lab.simulation import simulate_folders

SEEDS = range(40)


def test_a_damaged_folder_is_told_and_a_repaired_one_starts(seed: int) -> None:
    outcome = simulate_folders(seed)
    assert not outcome.violations, outcome.report()


@pytest.mark.nightly
def test_the_trials_contain_what_they_are_for() -> None:
    stories = " ".join(line for number in SEEDS for line in simulate_folders(number).lives)
    for words in ("killed", "stopped", "is flipped", "are left", "put back", "start: DamagedDataError", "repair: 0"):
        assert words in stories
    for file in (".journal", ".segment", ".manifest", "raft/log-", "raft/image-", "broker.json"):
        assert file in stories
