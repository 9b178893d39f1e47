"""What we publish works where the tree is not: a wheel, in an environment that holds nothing else of ours."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the tree, built without a network."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, root)
    (built,) = folder.glob("danube_messaging-*.whl")
    return built


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; only its dependencies are lent by the environment of the tests."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib"))
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel)
    return folder / "bin"


def test_the_wheel_holds_the_types_the_protos_and_nothing_but_the_package(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"danube/py.typed", "danube/wire/protos/DanubeApi.proto"} <= names
    tops = {"danube", "spark_analytics", f"{'-'.join(wheel.stem.split('-')[:2])}.dist-info"}
    assert {name.partition("/")[0] for name in names} == tops


@pytest.mark.parametrize("command", ["danube", "danube-broker"])
def test_a_command_of_the_wheel_says_what_it_does(command: str, bin_folder: Path) -> None:
    assert "Usage" in run(bin_folder / command, "--help")


def test_the_package_is_the_one_of_the_wheel(bin_folder: Path) -> None:
    imported = run(bin_folder / "python", "-c", "import danube; print(danube.__file__, danube.DanubeClient.__module__)")
    assert Path(imported.split()[0]).is_relative_to(bin_folder.parent)


def run(*command: str | Path) -> str:
    """What the command prints, run where the tree is not on the path."""
    environment = {"PATH": os.environ["PATH"], "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
