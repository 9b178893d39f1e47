"""Schema gate of a topic: each message, or batch, against the topic's subject and policy.

The pair of id and version is looked up once and remembered; from then on a message costs one look into a dictionary.
A pair that this broker does not know yet, or whose validator is not compiled, makes the publish wait.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from danube.metadata.schemas.record_format import VersionRecord
from danube.model.errors import DanubeError, SchemaRefusedError, UnavailableError
from danube.model.limits.registry import (
    SCHEMA_ACCEPTED_MAX,
    SCHEMA_PREPARE_TIMEOUT_S,
    SCHEMA_REFUSALS_SHOWN_CHARS,
)
from danube.model.limits.schema import SCHEMA_BATCH_STEPS_MAX
from danube.model.schema import TopicSchema, ValidationPolicy
from danube.model.topic import TopicName
from danube.runtime.tasks import TaskScope

Pair = tuple[int, int]
"""Schema id and version, 0 for none."""
Payloads = Callable[[], Iterable[bytes]]
_TOO_MANY_STEPS = "the batch takes too long to check: send smaller ones"


class Fault(Protocol):
    """Compiled validator of a version."""

    def __call__(self, payload: bytes) -> str | None:
        """The reason why a payload is not valid, with its field; None for a valid one."""

    def steps(self, payload: bytes) -> int:
        """Most comparisons that the answer may take."""


class Versions(Protocol):
    """The registry, as a gate asks it."""

    @property
    def changes(self) -> int:
        """Grows with each change of the registry."""

    def known(self, pair: Pair) -> VersionRecord | None:
        """The version of this pair, if this broker has it."""

    async def find(self, pair: Pair) -> VersionRecord | None:
        """The version of this pair, wherever it is."""

    async def fault_of(self, version: VersionRecord) -> Fault:
        """The compiled validator of a version. Raises DanubeError."""

    def used(self, topic: TopicName, pair: Pair) -> None:
        """A topic has used a version."""


@dataclass(slots=True)
class ValidationCounts:
    """Messages checked, and those that did not pass, by reason."""

    checked: int = 0
    failed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Verdict:
    reason: str = ""
    """A label of the metrics; empty for a pair that passes."""
    text: str = ""
    fault: Fault | None = None


class SchemaGate:
    """The check of one topic, as it is configured now."""

    def __init__(
        self,
        topic: TopicName,
        schema: TopicSchema,
        versions: Versions,
        counts: ValidationCounts,
        tasks: TaskScope,
    ) -> None:
        self.topic = topic
        self.schema = schema
        self.counts = counts
        self._versions = versions
        self._tasks = tasks
        self._verdicts: dict[Pair, _Verdict] = {}
        self._prepared: dict[Pair, _Verdict] = {}
        self._waiting: dict[Pair, asyncio.Future[None]] = {}
        self._changes = versions.changes

    @property
    def checks_payloads(self) -> bool:
        """True if payloads are validated, too."""
        return self.schema.checks_payloads

    def admit(
        self, schema_id: int | None, version: int | None, count: int, payloads: Payloads
    ) -> "asyncio.Future[None] | None":
        """Admit `count` messages of one version. Raises SchemaRefusedError, which says what is wrong.

        Answers a future instead where the version must be looked up first: ask again once it is done.
        """
        if self._changes != self._versions.changes:
            self.forget()
        pair = (schema_id or 0, version or 0)
        verdict = self._verdicts.get(pair) or self._decide(pair)
        if verdict is None:
            return self._prepare(pair)
        self.counts.checked += count
        if verdict.reason:
            self._fail(verdict.reason, verdict.text, count)
        elif verdict.fault is not None:
            self._check_payloads(verdict.fault, payloads())
        return None

    def forget(self) -> None:
        """Decide about every pair anew: the registry has changed, or uses are to be told again."""
        self._changes = self._versions.changes
        self._verdicts.clear()

    def _decide(self, pair: Pair) -> _Verdict | None:
        verdict = self._prepared.pop(pair, None) or self._judge(pair, self._versions.known(pair))
        if verdict is None:
            return None
        if len(self._verdicts) >= SCHEMA_ACCEPTED_MAX:
            self._verdicts.clear()
        self._verdicts[pair] = verdict
        if not verdict.reason:
            self._versions.used(self.topic, pair)
        return verdict

    def _judge(self, pair: Pair, found: VersionRecord | None) -> _Verdict | None:
        """None where it takes a look elsewhere, or a validator."""
        subject = self.schema.subject
        if subject is None:
            return _Verdict("no_subject", "it enforces schemas and has no subject: configure its schema first")
        if not pair[0]:
            return _Verdict(
                "missing_schema_id", f"the message names no schema: create the producer with the subject {subject}"
            )
        if found is None:
            return None
        verdict = self._judge_found(pair, found)
        return verdict if verdict.reason or not self.checks_payloads else None

    def _judge_found(self, pair: Pair, found: VersionRecord) -> _Verdict:
        if found.subject != self.schema.subject:
            return _Verdict(
                "subject_mismatch",
                f"its messages follow the subject {self.schema.subject} and this one is of {found.subject[:80]}:"
                " publish it to another topic, or create the producer with the topic's subject",
            )
        if found.is_deleted:
            return _Verdict(
                "deleted_version",
                f"version {pair[1]} of {found.subject} was deleted: create the producer anew, for the latest version",
            )
        return _Verdict()

    def _prepare(self, pair: Pair) -> "asyncio.Future[None]":
        waiting = self._waiting.get(pair)
        if waiting is None:
            waiting = self._waiting[pair] = asyncio.get_running_loop().create_future()
            self._tasks.spawn(self._look_up(pair, waiting), "look a schema up")
        return waiting

    async def _look_up(self, pair: Pair, waiting: "asyncio.Future[None]") -> None:
        try:
            async with asyncio.timeout(SCHEMA_PREPARE_TIMEOUT_S):
                verdict = await self._found(pair)
            if len(self._prepared) >= SCHEMA_ACCEPTED_MAX:
                self._prepared.clear()
            self._prepared[pair] = verdict
        except TimeoutError:
            error = UnavailableError(f"{self.topic}: the schema of the message could not be read in time: try again")
            _settle(waiting, error)
        except DanubeError as error:
            _settle(waiting, UnavailableError(f"{self.topic}: the schema of the message cannot be used now: {error}"))
        finally:
            del self._waiting[pair]
            _settle(waiting, None)

    async def _found(self, pair: Pair) -> _Verdict:
        found = await self._versions.find(pair)
        if found is None:
            shown = f"{pair[0]}, version {pair[1]}" if pair[1] else f"{pair[0]}"
            return _Verdict("unknown_schema", f"schema id {shown} is not registered: register it, or use one that is")
        verdict = self._judge_found(pair, found)
        if verdict.reason or not self.checks_payloads:
            return verdict
        return _Verdict(fault=await self._versions.fault_of(found))

    def _check_payloads(self, fault: Fault, payloads: Iterable[bytes]) -> None:
        steps = 0
        for index, payload in enumerate(payloads):
            steps += fault.steps(payload)
            reason = fault(payload) if steps <= SCHEMA_BATCH_STEPS_MAX else _TOO_MANY_STEPS
            if reason is not None:
                which = f"record {index} of the batch" if index else "the payload"
                self._fail("payload_invalid", f"{which} does not follow its schema: {reason}", 1)

    def _fail(self, reason: str, text: str, count: int) -> None:
        self.counts.failed[reason] = self.counts.failed.get(reason, 0) + count
        if self.schema.policy is ValidationPolicy.ENFORCE:
            raise SchemaRefusedError(f"{self.topic} refuses the message: {text[:SCHEMA_REFUSALS_SHOWN_CHARS]}")


def _settle(waiting: "asyncio.Future[None]", error: DanubeError | None) -> None:
    if waiting.done():
        return
    if error is None:
        waiting.set_result(None)
    else:
        waiting.set_exception(error)
        waiting.exception()  # retrieved, so that nothing is logged where the publisher has gone


def has_gate(schema: TopicSchema) -> bool:
    """True if a topic with this configuration checks its messages."""
    if schema.policy is ValidationPolicy.NONE:
        return False
    return schema.subject is not None or schema.policy is ValidationPolicy.ENFORCE
