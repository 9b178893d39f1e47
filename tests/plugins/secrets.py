"""Search of everything that a run logged for secrets: what tests captured, and the logs of the processes they started.

One that is found fails the run. What has the form of a secret counts: a token, an API key, a private key.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from danube.security.redaction import FORMS

LOGS = "*.log"
_SHOWN_CHARS = 12


def pytest_configure(config: pytest.Config) -> None:
    """Workers report to the process that started them, which searches; their folders are below its own."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Search(config), "secrets")


class _Search:
    """Search of one run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._found: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, text in report.sections:
            self._found += found_in(text, f"{report.nodeid}, {name}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        factory = getattr(self._config, "_tmp_path_factory", None)
        folder = getattr(factory, "_basetemp", None)  # none where no test asked for a folder
        if folder is not None:
            self._found += found_below(folder)
        if self._found:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in dict.fromkeys(self._found):
            terminalreporter.write_line(f"a secret was logged: {line}", red=True)


def found_below(folder: Path) -> list[str]:
    """Secrets in the logs below a folder."""
    found: list[str] = []
    for path in folder.rglob(LOGS):
        if path.is_file():
            found += found_in(path.read_text(errors="replace"), str(path.relative_to(folder)))
    return found


def found_in(text: str, place: str) -> Iterator[str]:
    """Secrets of a text, each with its place and as much of it as says which one it is."""
    for match in FORMS.finditer(text):
        yield f"{place}: {match.group()[:_SHOWN_CHARS]}..."
