"""Build the images of `deploy/image/Containerfile`: `make image`, with docker, podman or buildah, whichever there is.

Wheels come from the locks, with their hashes checked, into `build/wheels`; the build itself needs no network. With
`--own-base` the base is made from Debian's packages (mmdebstrap, as root) instead of pulled: for machines without a
registry of images, and without a daemon (buildah with the isolation chroot).
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from danube import __version__

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("broker", "admin", "connect", "analytics")
OWN_BASE, OWN_BUILD = "localhost/python-slim:3.11", "localhost/python-build:3.11"
_WHEELS = ROOT / "build" / "wheels"
_UNUSED = ("share/perl*", "lib/*/perl*", "lib/*/libperl*", "bin/perl*", "lib/*/gconv", "lib/python3.11/test",
           "lib/python3.11/lib2to3", "lib/python3.11/pydoc_data")  # fmt: skip
"""Parts of a base of Debian below /usr that no program of an image needs."""
_OF_BUILDS = ("/usr/share/python-wheels", "/usr/sbin/*", "/usr/bin/openssl", "/usr/share/bash-completion")
"""Parts that only a build needs, or a person at a shell."""
_DOCUMENTS = ("man", "locale", "doc", "info")


def collect_wheels(targets: Sequence[str]) -> None:
    """Fetch the wheels of the locks, check their hashes, and build those that come as sources, and our own."""
    wheel = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "-w",
        str(_WHEELS),
    ]
    for name in targets:
        _run(*wheel, "--require-hashes", "--find-links", str(_WHEELS), "-r", f"requirements/image-{name}.txt")
    _run(*wheel, "--no-build-isolation", str(ROOT))


def make_own_base(folder: Path) -> None:
    """Make the two base images: the slim one, and the one that builds, which has `strip` as well."""
    tar = folder / "base.tar"
    if not tar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        hook = " ".join(f'"$1"/usr/{each}' for each in _UNUSED)
        leave_out = [f"--dpkgopt=path-exclude=/usr/share/{each}/*" for each in _DOCUMENTS]
        _run("mmdebstrap", "--quiet", "--variant=essential", "--include=python3,python3-venv,ca-certificates",
             *leave_out, f"--customize-hook=rm -rf {hook}", "bookworm", str(tar))  # fmt: skip
    strip = shutil.which("strip") or "strip"
    needs = [line.split()[2] for line in _run("ldd", strip).splitlines() if "=> /" in line and "libc.so" not in line]
    building, slim = (_run("buildah", "from", "scratch").strip() for _ in range(2))
    for container in (building, slim):
        _run("buildah", "add", "--quiet", container, str(tar), "/")
    for path in (strip, *needs):
        _run("buildah", "add", "--quiet", building, str(Path(path).resolve()), path)
    _run("buildah", "commit", "--quiet", "--rm", building, OWN_BUILD)
    _run("buildah", "run", "--isolation", "chroot", slim, "--", "sh", "-c", f"rm -rf {' '.join(_OF_BUILDS)}")
    _run("buildah", "commit", "--quiet", "--rm", "--squash", slim, OWN_BASE)


def build(target: str, *, own_base: bool) -> str:
    """Build one image; answers its name."""
    name = f"danube-{target}:{__version__}"
    given = ["--build-arg", f"WHAT={target}", "--target", target, "--file", "deploy/image/Containerfile"]
    if own_base:
        given += ["--build-arg", f"BASE={OWN_BASE}", "--build-arg", f"BUILD_BASE={OWN_BUILD}"]
        _run(
            "buildah",
            "bud",
            "--quiet",
            "--isolation",
            "chroot",
            "--format",
            "docker",
            *given,
            "--tag",
            f"localhost/{name}",
            ".",
        )
        return f"localhost/{name}"
    builder = next((each for each in ("docker", "podman", "buildah") if shutil.which(each)), None)
    if builder is None:
        raise SystemExit("there is no docker, podman or buildah: install one of them")
    _run(builder, "build", *given, "--tag", name, ".")
    return name


def _run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    """Build what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=["broker", "admin", "connect"], help=", ".join(TARGETS))
    parser.add_argument("--own-base", action="store_true", help="make the base from Debian's packages, as root")
    parser.add_argument("--no-wheels", action="store_true", help="build/wheels has them already")
    given = parser.parse_args()
    if not given.no_wheels:
        collect_wheels(given.targets)
    if given.own_base:
        make_own_base(ROOT / "build" / "image")
    for target in given.targets:
        print(build(target, own_base=given.own_base), flush=True)


if __name__ == "__main__":
    main()
