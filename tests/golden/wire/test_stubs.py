"""The committed stubs are what the protos say, and a change that was forgotten is noticed."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "generate_stubs.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_stubs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generated(script: ModuleType) -> dict[str, str]:
    texts: dict[str, str] = script.generate()
    return texts


def test_committed_stubs_are_what_would_be_generated(script: ModuleType, generated: dict[str, str]) -> None:
    assert script.differing(generated) == [], "run `python scripts/generate_stubs.py`"


def test_generating_twice_gives_the_same_bytes(script: ModuleType, generated: dict[str, str]) -> None:
    assert script.generate() == generated


def test_check_fails_and_names_the_file_that_differs(
    script: ModuleType,
    generated: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(script, "_GENERATED", tmp_path)
    script.write(generated, list(generated))
    (tmp_path / "DanubeApi_pb2.py").write_text("old")
    (tmp_path / "Dropped_pb2.py").write_text("left over")
    monkeypatch.setattr("sys.argv", ["generate_stubs.py", "--check"])
    assert script.main() == 1
    assert capsys.readouterr().out.split(": ")[0] == "DanubeApi_pb2.py"
    assert script.differing(generated) == ["DanubeApi_pb2.py", "Dropped_pb2.py"]


def test_writing_mends_what_differs_and_removes_what_is_left_over(
    script: ModuleType, generated: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(script, "_GENERATED", tmp_path)
    (tmp_path / "Dropped_pb2.py").write_text("left over")
    monkeypatch.setattr("sys.argv", ["generate_stubs.py"])
    assert script.main() == 0
    assert script.differing(generated) == []
