"""The ten commands of docs/security.md are run in their order, as shown but for the ports."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
FILES = ("certs/", "token-secret")


def test_ten_commands_make_a_secured_cluster(root: Path, tmp_path: Path) -> None:
    lines = shown(root / "docs" / "security.md")
    assert len(lines) == 10
    before, [broker_line, *after] = lines[:3], lines[3:]
    assert broker_line == "danube-broker --data-dir data &"
    for line in before[:2]:
        run(line, tmp_path)
    settings = dict(pair.split("=", 1) for pair in shlex.split(before[2])[1:])
    whole = {name: str(tmp_path / value) if value.startswith(FILES) else value for name, value in settings.items()}
    given = {name.removeprefix("DANUBE_").lower(): value for name, value in whole.items()}
    with BrokerProcess(tmp_path / "data", settings=given) as broker:
        at = {"127.0.0.1:50051": broker.endpoints.admin, "127.0.0.1:6650": broker.endpoints.broker}
        said = [run(_at(line, at), tmp_path) for line in after]
    assert "granted by binding shop-publishes" in said[3]
    secrets = [(tmp_path / name).read_text().strip() for name in ("token-secret", "root.token", "shop.token")]
    told = "".join(said) + (tmp_path / "data.log").read_text(errors="replace")
    assert not [secret for secret in secrets if secret in told], "a secret was printed or logged"


def shown(document: Path) -> list[str]:
    """The lines of the first block."""
    block = re.search(r"```sh\n(.*?)```", document.read_text(), flags=re.DOTALL)
    assert block is not None
    return block[1].splitlines()


def run(line: str, folder: Path) -> str:
    """Everything that a line writes; it must end well."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout + done.stderr


def _at(line: str, places: dict[str, str]) -> str:
    for shown_as, real in places.items():
        line = line.replace(shown_as, real)
    return line
