"""The release checklist: `make release-check`. It changes nothing but `dist/`, and says what is not done yet."""

import re
import subprocess
import sys
import tarfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from danube import __version__

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ("danube", "danube-admin", "danube-analytics", "danube-broker")
IMAGES = ("broker", "admin", "analytics", "connect")


def versions_agree() -> str:
    """The package, the chart and the changelog have one version."""
    project: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((ROOT / "deploy/helm/danube/Chart.yaml").read_text())
    heads = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    found = {project, chart["version"], chart["appVersion"], heads[0], __version__}
    assert len(found) == 1, f"they differ: {sorted(found)}"
    return project


def changelog_has_a_date() -> str:
    """The newest version is not `unreleased`."""
    head = re.search(r"^## .*$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert head is not None
    assert "unreleased" not in head[0], f"write the day in place of `unreleased`: {head[0]}"
    return head[0]


def tree_is_clean() -> str:
    """Everything is committed."""
    changed = _run("git", "-C", str(ROOT), "status", "--porcelain").splitlines()
    assert not changed, f"commit first: {', '.join(changed[:3])}"
    return _run("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD").strip()


def wheel_and_sources_build() -> str:
    """`python -m build` makes both, with the packages and their licence."""
    target = ROOT / "dist"
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(ROOT))
    wheel, sources = _wheel(), target / f"danube_messaging-{__version__}.tar.gz"
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    assert any(name.endswith("/LICENSE") for name in names), "the wheel has no licence"
    assert not [name for name in names if name.startswith(("lab/", "tests/"))], "the wheel has tests in it"
    with tarfile.open(sources) as packed:
        assert any(name.endswith("CHANGELOG.md") for name in packed.getnames()), "the sources have no changelog"
    return f"{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB"


def wheel_installs_alone() -> str:
    """In a new environment, from the wheel: every program answers, and without extras."""
    with TemporaryDirectory() as folder:
        began_s = time.monotonic()
        venv.create(folder, with_pip=True)
        programs = Path(folder) / "bin"
        _run(str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(_wheel()))
        seconds = time.monotonic() - began_s
        for name in PROGRAMS:
            _run(str(programs / name), "--version" if name != "danube-admin" else "--help")
        megabytes = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6
    return f"{seconds:.0f} s, {megabytes:.0f} MB with pip"


def bills_of_materials_are_made() -> str:
    """One for each image, from its lock."""
    for name in IMAGES:
        _run(sys.executable, "-m", "scripts.sbom", f"requirements/image-{name}.txt", f"dist/{name}.cdx.json")
    return f"{len(IMAGES)} in dist"


def man_pages_are_made() -> str:
    """Man pages and completions of all programs."""
    return _run(sys.executable, "-m", "scripts.generate_man", "dist").strip()


def workflows_say_who_publishes() -> str:
    """The release is published by a trusted workflow: no token of an index is kept anywhere."""
    text = (ROOT / ".github/workflows/release.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}, "publishing needs the right id-token alone"
    assert "password" not in text, "a password is in the workflow"
    return "release.yml"


CHECKS: tuple[Callable[[], str], ...] = (
    versions_agree,
    changelog_has_a_date,
    tree_is_clean,
    wheel_and_sources_build,
    wheel_installs_alone,
    bills_of_materials_are_made,
    man_pages_are_made,
    workflows_say_who_publishes,
)
BY_HAND = ("make test and make nightly are green on this commit", "make image, and its sizes are in docs/deployment.md")


def checked() -> Iterator[bool]:
    """Run all checks, and say how each went."""
    for check in CHECKS:
        what = " ".join((check.__doc__ or "").partition("\n")[0].split())
        try:
            print(f"[ok]   {what} {check()}", flush=True)
            yield True
        except (AssertionError, OSError, subprocess.CalledProcessError) as error:
            told = getattr(error, "stderr", None) or str(error)
            print(f"[todo] {what} {told.strip()[-600:]}", flush=True)
            yield False


def _wheel() -> Path:
    return ROOT / "dist" / f"danube_messaging-{__version__}-py3-none-any.whl"


def _run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Exit code 1 while something is to be done."""
    done = list(checked())
    for line in BY_HAND:
        print(f"[you]  {line}")
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
