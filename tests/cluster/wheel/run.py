"""What the published `danube-client` wheel must be able to do against our broker. Runs in the wheel's own environment.

    python run.py SERVICE_URL < names of scenarios, a line each

Some scenarios run `danube-admin`, which is to be on the PATH and to find its broker in DANUBE_ADMIN_ENDPOINT.

Prints a line of JSON with what was imported, and then one for each scenario: where it failed, or null.
"""

import asyncio
import importlib
import importlib.metadata
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import danube
from danube import DanubeClientBuilder

SCENARIO_S_MAX = 200.0


def load_scenarios() -> dict[str, Any]:
    """All scenarios by their names."""
    for path in sorted(Path(__file__).parent.glob("*_scenarios.py")):
        importlib.import_module(f"tests.cluster.wheel.{path.stem}")
    found: dict[str, Any] = importlib.import_module("tests.cluster.wheel.scene").SCENARIOS
    return found


async def main(url: str) -> None:
    print(json.dumps({"version": importlib.metadata.version("danube-client"), "file": danube.__file__}), flush=True)
    while name := (await asyncio.to_thread(sys.stdin.readline)).strip():
        print(json.dumps({"scenario": name, "failure": await failure_of(url, name)}), flush=True)


async def failure_of(url: str, name: str) -> str | None:
    try:
        async with asyncio.timeout(SCENARIO_S_MAX):
            client = await DanubeClientBuilder().service_url(url).build()
            await load_scenarios()[name](client)
    except Exception:
        return traceback.format_exc()
    return None


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[3]))  # at the end: `danube` is the wheel, not what stands in this tree
    asyncio.run(main(*sys.argv[1:]))
