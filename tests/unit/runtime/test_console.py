"""Standard output and environments that are not as usual: one sentence at most, and never a traceback."""

import json
import os
import subprocess
import sys

import pytest

from danube.model.errors import SettingsError
from danube.model.exit_codes import ExitCode
from danube.runtime.console import ended
from danube.runtime.paths import user_folder
from danube.testing.patience import PATIENCE_S

_WRITES = """
import json
from danube.runtime import console
console.main(lambda: console.write(json.dumps(["日本", "\\U0001f600", "é"], ensure_ascii=False) + "\\n"), "danube")
"""


def _run(redirect: str = "", **environ: str) -> subprocess.CompletedProcess[bytes]:
    command = ["bash", "-c", f'exec "$0" -c "$1" {redirect}', sys.executable, _WRITES]
    return subprocess.run(command, capture_output=True, env={**os.environ, **environ}, timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_an_encoding_that_lacks_a_character_escapes_it_as_json_does(encoding: str) -> None:
    done = _run(PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.decode(encoding)) == ["日本", "\U0001f600", "é"]


@pytest.mark.parametrize(
    ("redirect", "told"), [(">/dev/full", "No space left on device; make room"), (">&-", "standard output is closed")]
)
def test_output_that_is_full_or_closed_is_one_sentence_and_exit_code_1(redirect: str, told: str) -> None:
    done = _run(redirect)
    assert done.returncode == ExitCode.FAILURE
    assert told in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_closed_standard_error_harms_nothing() -> None:
    assert _run("2>&-").returncode == ExitCode.OK


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError(13, "Permission denied", "/x/y"), "cannot use /x/y: Permission denied; check the path"),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"), "is not valid UTF-8"),
        (RuntimeError("two\nlines"), "internal error: RuntimeError: two lines; --debug shows where"),
    ],
)
def test_whatever_else_happens_is_one_sentence(error: Exception, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> ExitCode:
        raise error

    assert ended(work, "danube") is ExitCode.FAILURE
    assert told in capsys.readouterr().err


def test_without_a_home_folder_the_variables_to_set_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", no_home)
    with pytest.raises(SettingsError, match="set HOME or XDG_STATE_HOME"):
        user_folder({}, "XDG_STATE_HOME", ".local/state")
    assert str(user_folder({"XDG_STATE_HOME": "/s"}, "XDG_STATE_HOME", ".local/state")) == "/s"
