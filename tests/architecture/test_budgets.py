"""Each folder of tests has a budget, and only a folder that is clearly above it is named."""

from pathlib import Path

from tests.plugins.durations import BUDGET_S, folders_s, over_budget


def test_each_folder_of_tests_has_a_budget(written: list[str]) -> None:
    tests = [Path(name).parts for name in written if name.startswith("tests/") and Path(name).name.startswith("test_")]
    assert set(BUDGET_S) == {f"{parts[0]}/{parts[1]}" for parts in tests}


def test_all_budgets_together_are_ten_minutes_of_four_workers() -> None:
    assert sum(BUDGET_S.values()) <= 4 * 600


def test_a_folder_clearly_above_its_budget_is_named() -> None:
    budget_s = BUDGET_S["tests/unit"]
    tests_s = {"tests/unit/test_a.py::test_one": budget_s * 0.7, "tests/unit/b/test_b.py::test_two": budget_s * 0.7}
    assert over_budget(tests_s) == {"tests/unit": round(budget_s * 1.4)}
    assert over_budget({"tests/unit/test_a.py::test_one": budget_s * 1.1}) == {}


def test_durations_are_summed_by_folder_the_longest_first() -> None:
    assert [*folders_s({"tests/a/test_x.py::t": 1.0, "tests/b/c/test_y.py::t": 3.0}).items()] == [
        ("tests/b", 3),
        ("tests/a", 1),
    ]
