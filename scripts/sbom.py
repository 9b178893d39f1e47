"""Bill of materials (CycloneDX 1.6) of a lock: `python -m scripts.sbom requirements/image-broker.txt FILE`."""

import json
import re
import sys
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

from danube import __version__


def bill(lock: str, name: str) -> dict[str, Any]:
    """The bill of one lock; the same lock has the same bill."""
    components = []
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock):
        found = re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", block)
        if found:
            components.append(_component(found[1].lower(), found[2], re.findall(r"sha256:([0-9a-f]{64})", block)))
    own = f"pkg:pypi/danube-messaging@{__version__}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, lock)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": f"danube-messaging-{name}",
                "version": __version__,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [each["bom-ref"] for each in components]}],
    }


def _component(name: str, version: str, hashes: list[str]) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    # A wheel of a platform and the sources have each their own; a component has one list for all files.
    files = [{"type": "distribution", "url": purl, "hashes": [{"alg": "SHA-256", "content": each}]} for each in hashes]
    made: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    made["externalReferences"] = files
    if license_of(name):
        made["licenses"] = [{"license": {"name": license_of(name)}}]
    return made


def license_of(name: str) -> str:
    """As its package tells it here; empty where it is not installed or tells nothing."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    told = next((str(found[key]) for key in ("License-Expression", "License") if key in found), "")
    return told.strip().splitlines()[0][:80] if told.strip() else ""


if __name__ == "__main__":
    given, target = map(Path, sys.argv[1:3])
    made = bill(given.read_text(encoding="utf-8"), given.stem)
    target.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(f"{len(made['components'])} components in {target}")
