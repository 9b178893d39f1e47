"""The newest records of a broker's log, kept in memory for administrators: bounded, and without secrets."""

import logging
import re
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from danube.model.calls.inspection import LogLevel, LogPage, LogRecord, ReadLog
from danube.model.limits.inspection import LOG_RING_BYTES_MAX, LOG_RING_RECORDS_MAX, LOG_TEXT_CHARS_MAX
from danube.model.topic import TopicName
from danube.security.redaction import redacted

_LEVELS = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}
_RANK = {level: rank for rank, level in enumerate(LogLevel)}


class LogRing(logging.Handler):
    """Keeps the newest LOG_RING_RECORDS_MAX records, of LOG_RING_BYTES_MAX at most; may be written by any thread."""

    def __init__(self, *, records_max: int = LOG_RING_RECORDS_MAX, bytes_max: int = LOG_RING_BYTES_MAX) -> None:
        super().__init__()
        self._records: deque[LogRecord] = deque()
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._dropped = 0

    @contextmanager
    def listening(self) -> Iterator["LogRing"]:
        """Keep what the process logs, until the end."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield self
        finally:
            root.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record; `logging` holds the handler's lock."""
        try:
            kept = _kept(record)
        except Exception:
            self.handleError(record)
            return
        self._records.append(kept)
        self._bytes += len(kept.text)
        while len(self._records) > self._records_max or self._bytes > self._bytes_max:
            self._bytes -= len(self._records.popleft().text)
            self._dropped += 1

    def read(self, wanted: ReadLog, is_plain: Callable[[str], bool] = lambda _: False) -> LogPage:
        """The newest `limit` records that are asked for; `is_plain` topics are no partitions, whatever their names."""
        self.acquire()
        try:
            records, dropped = tuple(self._records), self._dropped
        finally:
            self.release()
        is_wanted = _filter(wanted, is_plain)
        found = tuple(each for each in records if is_wanted(each))
        return LogPage(
            records=found[-wanted.limit :],
            record_count=len(found),
            kept_since_ms=records[0].time_ms if records else None,
            dropped_count=dropped,
        )


def _kept(record: logging.LogRecord) -> LogRecord:
    text = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        text = f"{text}\n{''.join(traceback.format_exception(record.exc_info[1]))}".rstrip()
    text = redacted(text)
    if len(text) > LOG_TEXT_CHARS_MAX:
        half = LOG_TEXT_CHARS_MAX // 2
        text = f"{text[:half]} ... {text[-half:]}"
    level = next((each for each, number in reversed(_LEVELS.items()) if record.levelno >= number), LogLevel.DEBUG)
    return LogRecord(time_ms=int(record.created * 1_000), level=level, logger=record.name, text=text)


def _filter(wanted: ReadLog, is_plain: Callable[[str], bool]) -> Callable[[LogRecord], bool]:
    least = _RANK[wanted.level]
    since, until = wanted.since_ms, wanted.until_ms
    names = _mention_of(wanted.topic, is_plain)

    def is_wanted(record: LogRecord) -> bool:
        return (
            _RANK[record.level] >= least
            and (since is None or record.time_ms >= since)
            and (until is None or record.time_ms < until)
            and (names is None or names(record.text))
        )

    return is_wanted


def _mention_of(topic: TopicName | None, is_plain: Callable[[str], bool]) -> Callable[[str], bool] | None:
    """True for texts that name the topic or a partition of it, and not one whose name only begins like it."""
    if topic is None:
        return None
    pattern = re.compile(rf"{re.escape(str(topic))}(?:-part-\d+)?(?![\w-])")
    name = str(topic)
    return lambda text: any(each[0] == name or not is_plain(each[0]) for each in pattern.finditer(text))
