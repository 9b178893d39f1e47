"""The chart of `deploy/helm/danube` as it is rendered. `python -m tests.deploy.charts` writes the golden files again.

Helm is not needed to test: the golden files are what it makes, and each begins with the digest of its chart.
"""

import functools
import hashlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "danube"
GOLDEN = ROOT / "tests" / "golden" / "helm"
NAMES = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))
KUBERNETES = "1.34"
_TOOLS = ROOT / ".venvs" / "go" / "bin"


def find_tool(name: str) -> str | None:
    """The path of `helm` or `kube-score`: the machine's, or those of `make chart-tools`."""
    own = _TOOLS / name
    return str(own) if own.exists() else shutil.which(name)


def digest() -> str:
    """Of all files of the chart."""
    found = hashlib.sha256()
    for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(CHART)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def render(helm: str, name: str) -> str:
    """Output of helm for one file of values, without what is made at random."""
    values = str(CHART / "ci" / f"{name}-values.yaml")
    where = ["--namespace", "messaging", "--kube-version", KUBERNETES]
    made = subprocess.run(
        [helm, "template", "danube", str(CHART), "-f", values, *where], capture_output=True, check=True
    )
    text = re.sub(
        r"^  raft: \S+$",
        "  raft: dGhpcyB0ZXh0IHN0YW5kcyBmb3IgdGhlIHNlY3JldCBvZiBhIHJlbGVhc2U=",
        made.stdout.decode(),
        flags=re.MULTILINE,
    )
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def head() -> str:
    """First line of a golden file of the chart as it is."""
    return f"# Of the chart {digest()}\n"


@functools.cache
def objects(name: str) -> list[dict[str, Any]]:
    """The objects that one file of values makes."""
    return [each for each in yaml.load_all((GOLDEN / f"{name}.yaml").read_text(), yaml.CSafeLoader) if each]


def of_kind(name: str, kind: str) -> list[dict[str, Any]]:
    """Those of one kind."""
    return [each for each in objects(name) if each["kind"] == kind]


def pod_templates(name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each object that makes pods, with their template."""
    found = []
    for each in objects(name):
        spec = each.get("spec", {})
        spec = spec["jobTemplate"]["spec"] if each["kind"] == "CronJob" else spec
        if isinstance(spec, dict) and "template" in spec:
            found.append((each, spec["template"]))
    return found


def main() -> None:
    """Render all golden files."""
    helm = find_tool("helm")
    if helm is None:
        raise SystemExit("there is no helm: run `make chart-tools`, which builds it with Go")
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (GOLDEN / f"{name}.yaml").write_text(head() + render(helm, name))


if __name__ == "__main__":
    main()
