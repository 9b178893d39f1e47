"""Structured logging on stderr. Nothing else configures logging."""

import json
import logging
import sys
from typing import Literal

LogFormat = Literal["text", "json"]

_TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def configure_logging(level: str, log_format: LogFormat) -> None:
    """Send the log to stderr, at `level` ("debug", "info", "warning", "error") and above."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
