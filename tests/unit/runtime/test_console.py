"""Standard output and environments that are not as usual: one sentence at most, and never a traceback."""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from danube.model.errors import SettingsError
from danube.model.exit_codes import ExitCode
from danube.runtime.console import ended, yaml_text
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


_CORE = re.compile(
    r"null|Null|NULL|~|true|True|TRUE|false|False|FALSE"
    r"|[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
"""Plain scalars that are no text in YAML 1.2.2, section 10.3.2."""
_OLD = re.compile(
    r"y|Y|n|N|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF|null|Null|NULL|~|=|<<"
    r"|[-+]?0b[01_]+|[-+]?[0-9][0-9_,]*|[-+]?0x[0-9a-fA-F_]+|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
    r"|[-+]?([0-9][0-9_]*)?\.[0-9_]*([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"
)
"""And in YAML 1.1, by its pages on types (yaml.org/type)."""
_NUMBERS = st.text("0123456789+-.eExXoObB_:,anify", min_size=1, max_size=12)
_WORDS = st.sampled_from(["y", "N", "yes", "Off", "null", "~", "=", "<<", "True", ".nan", "-.Inf", "2024-02-30"])


@given(st.lists(_NUMBERS | _WORDS | st.text(max_size=20), min_size=1))
@example(["1e3", "25921e05", "0o17", "12e-4", "1.5e3", "1:30", "0x1f", "017", "1_000", "1,000"])
def test_a_text_in_yaml_is_a_text_for_readers_of_yaml_1_1_and_of_1_2(texts: list[str]) -> None:
    data = [texts, dict.fromkeys(texts, 1)]
    written = yaml_text(data)
    assert yaml.safe_load(written) == data
    assert written.isascii()
    tokens = [token for token in yaml.scan(written) if isinstance(token, yaml.ScalarToken) and token.plain]
    taken = [token.value for token in tokens if _CORE.fullmatch(token.value) or _OLD.fullmatch(token.value)]
    assert taken == ["1"] * len(set(texts))  # the numbers alone
