"""Files of a release: units of systemd, man pages, completions, bills of materials, workflows."""

import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from danube.testing.patience import PATIENCE_S
from scripts import generate_man, release_check, sbom
from tests.deploy.charts import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


def unit(path: Path) -> dict[str, list[str]]:
    """Values of a unit by their key; a key may be there several times."""
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", path.read_text(), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze on this machine")
    for path in UNITS:
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", path.read_text(), flags=re.MULTILINE)
        (tmp_path / path.name.replace("@", "@orders")).write_text(text)
    units = sorted(map(str, tmp_path.iterdir()))
    told = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")
    for each in units:
        told = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--threshold=20", each],
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode == 0, told.stdout[-300:]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_starts_a_program_that_there_is_and_names_its_man_page(path: Path) -> None:
    given = unit(path)
    first, *words = given["ExecStart"][0].split()
    trees = generate_man.programs()
    pages = {"-".join(each) for name, tree in trees.items() for each, _ in generate_man.commands((name,), tree)}
    assert first.rpartition("/")[2] in trees
    assert given["Documentation"][0].removeprefix("man:").removesuffix("(1)") in pages
    assert not words or words[0].startswith("-") or f"{first.rpartition('/')[2]}-{words[0]}" in pages


@pytest.mark.cluster
def test_the_broker_of_the_unit_tells_systemd_and_ends_within_its_time(tmp_path: Path) -> None:
    given = unit(ROOT / "deploy" / "systemd" / "danube-broker.service")
    config = tmp_path / "broker.yml"
    config.write_text("broker_addr: 127.0.0.1:0\nadmin_addr: 127.0.0.1:0\n")
    command = given["ExecStart"][0].split()
    assert command[1:] == ["--config-file", "/etc/danube/broker.yml"]
    variables = dict(pair.split("=", 1) for pair in given["Environment"][0].split())
    variables |= {"DANUBE_DATA_DIR": str(tmp_path / "data"), "DANUBE_PROM_EXPORTER": "127.0.0.1:0"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        process = subprocess.Popen(
            [sys.executable, "-m", "danube.broker", "--config-file", str(config)],
            env={"PATH": "/usr/bin", "NOTIFY_SOCKET": str(tmp_path / "notify"), **variables},
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )
        try:
            assert manager.recv(64) == b"READY=1"
            process.send_signal(signal.SIGTERM)
            assert process.wait(float(given["TimeoutStopSec"][0])) == 0
        finally:
            process.kill()
            process.wait()


def test_every_command_has_a_man_page_and_every_program_its_completions(tmp_path: Path) -> None:
    count = generate_man.write(tmp_path)
    pages = {path.stem: path.read_text() for path in (tmp_path / "man" / "man1").iterdir()}
    completions = {path.name for path in (tmp_path / "completions").iterdir()}
    assert count == len(pages) + len(completions)
    assert {
        "danube-admin-brokers-unload",
        "danube-broker-storage-verify",
        "danube-produce",
        "danube-analytics-lag",
    } <= pages.keys()
    assert completions == {f"{name}.{shell}" for name in generate_man.programs() for shell in ("bash", "zsh", "fish")}
    for name, page in pages.items():
        assert page.startswith(".TH "), name
        assert [line for line in page.splitlines() if line.startswith("'")] == [], name


def test_groff_reads_the_man_pages(tmp_path: Path) -> None:
    if shutil.which("groff") is None:
        pytest.skip("there is no groff on this machine")
    generate_man.write(tmp_path)
    pages = [str(path) for path in sorted((tmp_path / "man" / "man1").iterdir())][::12]
    told = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", *pages], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")
    assert "SYNOPSIS" in told.stdout


def test_a_bill_of_materials_names_every_package_of_its_lock_with_hashes() -> None:
    lock = (ROOT / "requirements" / "image-broker.txt").read_text()
    bill = sbom.bill(lock, "image-broker")
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert {each["name"] for each in bill["components"]} == {
        name.lower() for name in re.findall(r"^([A-Za-z0-9._-]+)==", lock, re.MULTILINE)
    }
    assert all(each["externalReferences"][0]["hashes"] for each in bill["components"])
    assert len({each["bom-ref"] for each in bill["components"]}) == len(bill["components"])
    assert bill == sbom.bill(lock, "image-broker")


def test_workflows_run_what_the_makefile_has_and_keep_no_secrets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in (ROOT / ".github" / "workflows").iterdir():
        flow = yaml.safe_load(path.read_text())
        for job in flow["jobs"].values():
            assert job["steps"]
            for step in job["steps"]:
                for line in re.findall(r"make ([a-z -]+)", step.get("run", "")):
                    assert set(line.split()) <= targets
        assert "secrets." not in path.read_text()
    assert release_check.workflows_say_who_publishes()


def test_the_package_the_chart_and_the_changelog_have_one_version() -> None:
    assert release_check.versions_agree()
