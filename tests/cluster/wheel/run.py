"""What the published `danube-client` wheel must be able to do against our broker. Runs in the wheel's own environment.

    python run.py SERVICE_URL SCENARIO

Some scenarios run `danube-admin`, which is to be on the PATH and to find its broker in DANUBE_ADMIN_ENDPOINT.

Prints a line of JSON with what was imported; ends with a traceback where the broker did not do what the clients expect.
"""

import asyncio
import importlib
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import danube
from danube import DanubeClientBuilder


def load_scenarios() -> dict[str, Any]:
    """All scenarios by their names."""
    for path in sorted(Path(__file__).parent.glob("*_scenarios.py")):
        importlib.import_module(f"tests.cluster.wheel.{path.stem}")
    found: dict[str, Any] = importlib.import_module("tests.cluster.wheel.scene").SCENARIOS
    return found


async def main(url: str, name: str) -> None:
    version = importlib.metadata.version("danube-client")
    print(json.dumps({"version": version, "file": danube.__file__, "scenario": name}), flush=True)
    client = await DanubeClientBuilder().service_url(url).build()
    await load_scenarios()[name](client)


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[3]))  # at the end: `danube` is the wheel, not what stands in this tree
    asyncio.run(main(*sys.argv[1:]))
