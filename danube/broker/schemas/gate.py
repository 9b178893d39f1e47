"""Schema gate of a topic: each message, or batch, against the topic's subject and policy.

The pair of id and version is looked up once and remembered; from then on a message costs one look into a dictionary.
A pair that this broker does not know yet, or whose validator is not compiled, makes the publish wait, and so does a
check that could hold the event loop up: of a batch it is made in parts, of a message in another process.
What waits is a queue of the topic: none waits for all checks of another, and producers with nothing in it pass by.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from danube.metadata.schemas.record_format import VersionRecord
from danube.model.errors import DanubeError, OverloadedError, SchemaRefusedError, UnavailableError
from danube.model.limits.registry import (
    SCHEMA_ACCEPTED_MAX,
    SCHEMA_PREPARE_TIMEOUT_S,
    SCHEMA_REFUSALS_SHOWN_CHARS,
)
from danube.model.limits.schema import (
    SCHEMA_CHECK_CPU_S,
    SCHEMA_CHECKS_WAITING_BYTES,
    SCHEMA_INLINE_STEPS_MAX,
    SCHEMA_PARTS_STEPS_MAX,
    SCHEMA_REASON_STEPS_MAX,
)
from danube.model.schema import TopicSchema, ValidationPolicy
from danube.model.topic import TopicName
from danube.runtime.tasks import TaskScope
from danube.schema.validation import Judgement

Pair = tuple[int, int]
"""Schema id and version, 0 for none."""
Payloads = Callable[[], Sequence[bytes]]
Admitted = Callable[[DanubeError | None], None]
"""Told that messages are admitted, or why they are not."""
_TOO_EXPENSIVE = (
    f"it is too expensive to check: it took more than {SCHEMA_CHECK_CPU_S:g} s of processor time, or too much memory:"
    " send smaller messages or batches, or simplify the schema"
)


@dataclass(frozen=True, slots=True)
class Check:
    """Compiled validator of a version."""

    steps: Callable[[bytes], int]
    """As `Validator.steps`."""
    judge: Callable[..., Judgement]
    """As `schema.validation.judge`, by its validator."""
    judge_apart: Callable[..., Awaitable[Judgement | None]]
    """The same, in another process; None for a check that takes too long. Raises UnavailableError."""


class Versions(Protocol):
    """The registry, as a gate asks it."""

    waiting_bytes: int
    """Of payloads that wait for admission, on all topics."""

    @property
    def changes(self) -> int:
        """Grows with each change of the registry."""

    def known(self, pair: Pair) -> VersionRecord | None:
        """The version of this pair, if this broker has it."""

    async def find(self, pair: Pair) -> VersionRecord | None:
        """The version of this pair, wherever it is."""

    async def check_of(self, version: VersionRecord) -> Check:
        """The compiled validator of a version. Raises DanubeError."""

    def used(self, topic: TopicName, pair: Pair) -> None:
        """A topic has used a version."""

    async def rest(self) -> None:
        """Let other topics have the process that checks payloads: a check has taken too long."""


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
    check: Check | None = None


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
        self._waiting: dict[Hashable, int] = {}
        """Batches or messages that wait, by producer."""
        self._enforces = schema.policy is ValidationPolicy.ENFORCE
        self._turn = asyncio.Lock()
        """Of what waits, in its order."""
        self._rest: asyncio.Task[None] | None = None
        """After a check that took too long, before the next one in the other process."""
        self._changes = versions.changes

    @property
    def checks_payloads(self) -> bool:
        """True if payloads are validated, too."""
        return self.schema.checks_payloads

    def admit(
        self, producer: Hashable, pair: Pair, count: int, payloads: Payloads, later: Admitted
    ) -> "asyncio.Task[None] | None":
        """Admit `count` messages of one version, 0 for none. Raises SchemaRefusedError, which says what is wrong.

        Where that takes a while, or earlier messages of the producer wait, `later` gets the outcome, in the order of
        asking; to cancel the task is to leave the queue. Raises OverloadedError if that is too long.
        """
        self.counts.checked += count
        if producer not in self._waiting:
            verdict = self._known(pair)
            if verdict is not None and self._passes(verdict, count, payloads):
                return None
        size = sum(map(len, payloads()))
        if self._versions.waiting_bytes + size > SCHEMA_CHECKS_WAITING_BYTES:
            self.counts.checked -= count  # they come again
            raise OverloadedError(
                f"{self._versions.waiting_bytes} bytes of messages wait for the check by their schemas: send it later"
            )
        self._versions.waiting_bytes += size
        self._waiting[producer] = self._waiting.get(producer, 0) + 1
        task = self._tasks.spawn(self._admit_later(pair, count, payloads, later), "admit messages later")
        task.add_done_callback(lambda _task: self._waited(producer, size))
        return task

    def _waited(self, producer: Hashable, size: int) -> None:
        self._versions.waiting_bytes -= size
        self._waiting[producer] -= 1
        if not self._waiting[producer]:
            del self._waiting[producer]

    async def _admit_later(self, pair: Pair, count: int, payloads: Payloads, later: Admitted) -> None:
        outcome: DanubeError | None = UnavailableError(f"{self.topic}: the check of the message ended: send it again")
        try:
            async with self._turn:
                verdict = self._known(pair) or await self._look_up(pair)
                if not self._passes(verdict, count, payloads) and verdict.check is not None:
                    self._conclude(await self._judge_later(verdict.check, payloads()))
                outcome = None
        except DanubeError as error:
            outcome = error
        finally:
            later(outcome)

    def forget(self) -> None:
        """Decide about every pair anew: the registry has changed, or uses are to be reported again."""
        self._changes = self._versions.changes
        self._verdicts.clear()

    def _known(self, pair: Pair) -> _Verdict | None:
        if self._changes != self._versions.changes:
            self.forget()
        verdict = self._verdicts.get(pair) or self._judge(pair, self._versions.known(pair))
        return None if verdict is None else self._keep(pair, verdict)

    def _keep(self, pair: Pair, verdict: _Verdict) -> _Verdict:
        if pair not in self._verdicts:
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

    async def _look_up(self, pair: Pair) -> _Verdict:
        try:
            async with asyncio.timeout(SCHEMA_PREPARE_TIMEOUT_S):
                return self._keep(pair, await self._found(pair))
        except TimeoutError:
            reason = "could not be read in time: try again"
        except DanubeError as error:
            reason = f"cannot be used now: {error}"
        raise UnavailableError(f"{self.topic}: the schema of the message {reason}")

    async def _found(self, pair: Pair) -> _Verdict:
        found = await self._versions.find(pair)
        if found is None:
            shown = f"{pair[0]}, version {pair[1]}" if pair[1] else f"{pair[0]}"
            return _Verdict("unknown_schema", f"schema id {shown} is not registered: register it, or use one that is")
        verdict = self._judge_found(pair, found)
        if verdict.reason or not self.checks_payloads:
            return verdict
        return _Verdict(check=await self._versions.check_of(found))

    def _passes(self, verdict: _Verdict, count: int, payloads: Payloads) -> bool:
        """True once they have passed, or a warning lets them; false for payloads to check later."""
        if verdict.reason:
            self._fail(verdict.reason, verdict.text, count)
        check = verdict.check
        if check is None:
            return True
        parts = _parts(check, payloads())
        part = next(parts)
        if part.steps > SCHEMA_INLINE_STEPS_MAX or next(parts, None) is not None:
            return False
        with_reason = self._enforces and part.most <= SCHEMA_REASON_STEPS_MAX
        found = check.judge(part.payloads, with_reason=with_reason)
        if found.invalid and self._enforces and not with_reason:
            return False
        self._conclude(found)
        return True

    async def _judge_later(self, check: Check, payloads: Sequence[bytes]) -> Judgement | None:
        """In parts between other work of the event loop if each takes little, else in the other process, as that."""
        invalid = steps = 0
        for part in _parts(check, payloads):
            steps += part.steps
            if part.steps > SCHEMA_INLINE_STEPS_MAX or steps > SCHEMA_PARTS_STEPS_MAX:
                break
            invalid += check.judge(part.payloads, with_reason=False).invalid
            if invalid and self._enforces:
                break
            await asyncio.sleep(0)
        else:
            return Judgement(invalid)
        if self._rest is not None:
            await asyncio.wait((self._rest,))
        found = await check.judge_apart(payloads, with_reason=self._enforces)
        if found is None:
            self._rest = self._tasks.spawn(self._versions.rest(), "let other topics have the process")
        return found

    def _conclude(self, found: Judgement | None) -> None:
        if found is None:
            self._fail("too_expensive", _TOO_EXPENSIVE, 1)
        elif found.invalid:
            which = f"record {found.first} of the batch" if found.first else "the payload"
            self._fail("payload_invalid", f"{which} does not follow its schema: {found.reason}", found.invalid)

    def _fail(self, reason: str, text: str, count: int) -> None:
        self.counts.failed[reason] = self.counts.failed.get(reason, 0) + count
        if self._enforces:
            raise SchemaRefusedError(f"{self.topic} refuses the message: {text[:SCHEMA_REFUSALS_SHOWN_CHARS]}")


class _Part(NamedTuple):
    """Payloads that follow each other."""

    payloads: list[bytes]
    steps: int
    most: int
    """Steps of one of them."""


def _parts(check: Check, payloads: Sequence[bytes]) -> Iterator[_Part]:
    """One part at least; each is checked on the event loop at once, but a payload that is too expensive by itself."""
    part = _Part([], 0, 0)
    for payload in payloads:
        steps = check.steps(payload)
        if part.payloads and part.steps + steps > SCHEMA_INLINE_STEPS_MAX:
            yield part
            part = _Part([], 0, 0)
        part = _Part(part.payloads, part.steps + steps, max(part.most, steps))
        part.payloads.append(payload)
    yield part


def has_gate(schema: TopicSchema) -> bool:
    """True if a topic with this configuration checks its messages."""
    if schema.policy is ValidationPolicy.NONE:
        return False
    return schema.subject is not None or schema.policy is ValidationPolicy.ENFORCE
