"""Structured logging on stderr. Nothing else configures logging."""

import json
import logging
import sys
from collections.abc import Callable
from typing import Literal

LogFormat = Literal["text", "json"]

_OWN = ("danube", "spark_analytics")
"""Below `info` only these log: what libraries tell there has headers in it, and so tokens."""

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


def configure_logging(level: str, log_format: LogFormat, reword: Callable[[str], str] | None = None) -> None:
    """Send the log to stderr, at `level` ("debug", "info", "warning", "error") and above.

    `reword` may change each message; it may be called from any thread.
    """
    handler = logging.StreamHandler(sys.stderr)
    if reword is not None:
        handler.addFilter(_rewording(reword))
    handler.setFormatter(_JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _OWN:
        logging.getLogger(name).setLevel(root.level if root.level < logging.INFO else logging.NOTSET)
    root.setLevel(max(root.level, logging.INFO))


def _rewording(reword: Callable[[str], str]) -> Callable[[logging.LogRecord], bool]:
    def apply(record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):  # of whoever logs: the handler says so, and its caller goes on
            return True
        record.msg, record.args = reword(message), ()
        return True

    return apply
