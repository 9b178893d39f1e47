"""`danube-admin` on a seeded cluster in memory, as it is typed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from danube.admin.__main__ import app
from danube.runtime.clock import SystemClock
from tests.faces.memory_gateway import MemoryGateway, connect_to
from tests.faces.seeded import seeded_gateway


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    error: str


Admin = Callable[..., Ended]


@pytest.fixture
def gateway() -> MemoryGateway:
    return seeded_gateway(SystemClock())


@pytest.fixture
def admin(gateway: MemoryGateway, tmp_path: Path) -> Admin:
    """Runs a command; without a terminal, and with nothing of the environment's about clusters."""
    built = app(connect_to(gateway))
    clean = dict.fromkeys(("DANUBE_ADMIN_ENDPOINT", "DANUBE_ADMIN_CONTEXT", "DANUBE_ADMIN_YES", "NO_COLOR"))

    def run(*words: str, stdin: str = "", environment: dict[str, str] | None = None) -> Ended:
        variables: dict[str, Any] = {**clean, "XDG_CONFIG_HOME": str(tmp_path), "COLUMNS": "100"}
        result = CliRunner().invoke(
            built, words, prog_name="danube-admin", input=stdin, env={**variables, **(environment or {})}
        )
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)

    return run
