"""The log on stderr: each message as whoever configures it has it put."""

import json
import logging
from collections.abc import Iterator

import hpack
import pytest

from danube.runtime.process import LogFormat, configure_logging

_log = logging.getLogger("danube.test")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("danube").setLevel(logging.NOTSET)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_every_message_is_put_as_was_asked(capsys: pytest.CaptureFixture[str], log_format: LogFormat) -> None:
    configure_logging("info", log_format, lambda text: text.replace("...", "/data"))
    _log.error("%s is damaged: see --data-dir %s", "a file", "...")
    said = capsys.readouterr().err.strip()
    message = json.loads(said)["message"] if log_format == "json" else said.rpartition("danube.test: ")[2]
    assert message == "a file is damaged: see --data-dir /data"


def test_what_is_below_the_level_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning", "text")
    _log.info("quiet")
    _log.warning("100 %")
    assert capsys.readouterr().err.endswith("danube.test: 100 %\n")


def test_no_header_that_a_library_decodes_is_said_at_any_level(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("debug", "text")
    block = hpack.Encoder().encode([("authorization", "Bearer a-secret")])
    assert hpack.Decoder().decode(block)
    _log.debug("one")
    said = capsys.readouterr().err
    assert said.endswith("danube.test: one\n")
    assert "a-secret" not in said


def test_a_message_that_cannot_be_put_together_does_not_fail_its_caller(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "text", str.upper)
    _log.error("%d segments", "many")
    assert "Message: '%d segments'" in capsys.readouterr().err
