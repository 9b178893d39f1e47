"""Judge of lag verdicts: precision, recall, delay and flaps of a series of looks, beside the truth. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from danube.model.lag.verdict import LagMethod, LagStatus, LagVerdict
from lab.lag.truth import GRACE_S, MESSAGES_OFF, Ledger, Phase

AGE_OFF_S = 0.5
AGE_OFF = 0.01
AT_ONCE_S = 0.05
"""What happens so near to the look may be seen or not."""
LAST_S = 5.0
"""Rates may reach so far beyond their window."""


@dataclass(frozen=True, slots=True)
class Look:
    """A verdict that was read at a second of the course; None where there was none."""

    at_s: float
    verdict: LagVerdict | None
    observed_s: float
    """The second of what it was judged from: now, or that of the newest telemetry."""

    @property
    def named(self) -> tuple[LagStatus | None, str | None]:
        """Status and cause."""
        return (self.verdict.status, self.verdict.cause) if self.verdict is not None else (None, None)

    @property
    def is_alarm(self) -> bool:
        """True if it tells of trouble."""
        return self.verdict is not None and self.verdict.status not in {LagStatus.OK, LagStatus.UNKNOWN}

    @property
    def heard(self) -> tuple[LagStatus | None, str | None]:
        """The part that a person hears: causes count in trouble alone."""
        status, cause = self.named
        return status, cause if self.is_alarm else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A series of verdicts compared with the truth."""

    alarms: int
    """Looks that told of trouble."""
    right_alarms: int
    troubled: int
    """Looks at which trouble had been there for the grace and its evidence."""
    found: int
    """Of those, the ones with the right status and cause."""
    wrong: tuple[str, ...]
    """Looks beyond the grace that are not as the truth is, as text."""
    delay_s: float | None
    """The longest from the evidence of a phase to its first right verdict; None if a phase had none."""
    flaps: int
    """Changes of the verdict beyond one for each change of the truth."""

    @property
    def precision(self) -> float:
        """Share of the alarms that are right; 1 without any."""
        return self.right_alarms / self.alarms if self.alarms else 1.0

    @property
    def recall(self) -> float:
        """Share of the troubled looks that say so; 1 without any."""
        return self.found / self.troubled if self.troubled else 1.0


def score_of(looks: Sequence[Look], phases: Sequence[Phase]) -> Score:
    """The score of one series; `phases` in order, the first begins with the course."""
    judged = [(look, *_phase_at(phases, look.at_s)) for look in looks]
    alarms = [(look, phase) for look, phase, _ in judged if look.is_alarm]
    settled = [(look, phase) for look, phase, is_known in judged if is_known]
    troubled = [(look, phase) for look, phase in settled if phase.is_trouble]
    delays = [_delay_s(looks, phase, end_s) for phase, end_s in _spans(phases)]
    known = [look for look in looks if look.named[0] not in {None, LagStatus.UNKNOWN}]
    changes = sum(before.heard != after.heard for before, after in pairwise(known))
    return Score(
        alarms=len(alarms),
        right_alarms=sum(phase.is_trouble or _was_trouble(phases, look.at_s) for look, phase in alarms),
        troubled=len(troubled),
        found=sum(_holds(look, phase) for look, phase in troubled),
        wrong=tuple(_told(look) for look, phase in settled if not _holds(look, phase)),
        delay_s=max((each for each in delays if each is not None), default=0.0) if None not in delays else None,
        flaps=max(0, changes - len(phases) + 1),
    )


def numbers_off(looks: Sequence[Look], ledger: Ledger) -> Iterator[str]:
    """Each look whose lag is not that of the clients, as text."""
    for look in looks:
        verdict = look.verdict
        if verdict is None or verdict.lag_messages is None:
            continue
        off = [_off(look, verdict, ledger, look.observed_s + late_s) for late_s in (-AT_ONCE_S, AT_ONCE_S)]
        if all(off):
            yield f"{look.at_s:g} s: {off[0]}"


def rates_off(looks: Sequence[Look], ledger: Ledger, within: float) -> Iterator[str]:
    """Each look with a rate that is further off than this share, while the true one is steady, as text."""
    for look in looks:
        verdict = look.verdict
        if verdict is None or verdict.rate_window_s is None or look.observed_s <= verdict.rate_window_s + LAST_S:
            continue
        window_s = verdict.rate_window_s + LAST_S
        true, late = ledger.at(look.observed_s, window_s), ledger.at(look.observed_s, window_s / 2)
        for name in ("arrival_rate", "consume_rate"):
            told, right = getattr(verdict, name), getattr(true, name)
            is_steady = abs(getattr(late, name) - right) <= within / 4 * right
            if is_steady and told is not None and abs(told - right) > within * right:
                yield f"{look.at_s:g} s: {name} {told:.2f}, in truth {right:.2f}"


def _off(look: Look, verdict: LagVerdict, ledger: Ledger, seen_s: float) -> str:
    """The number that is not as it was at this second, as text."""
    true = ledger.at(seen_s)
    if abs((verdict.lag_messages or 0) - true.lag_messages) > MESSAGES_OFF:
        return f"{verdict.lag_messages} messages, in truth {true.lag_messages}"
    since_s = look.at_s - seen_s if true.lag_messages else 0.0
    least_s, most_s = true.lag_s_least + since_s, true.lag_s_most + since_s
    if verdict.lag_method is LagMethod.EXTRAPOLATED:  # what was read since is guessed: no more than really was
        least_s = min(least_s, ledger.at(look.at_s).lag_s_least)
    off_s = max(AGE_OFF_S, AGE_OFF * most_s)
    if verdict.lag_s is None or not least_s - off_s <= verdict.lag_s <= most_s + off_s:
        return f"{verdict.lag_s} s old, in truth {true.lag_s + since_s:g}"
    return ""


def _phase_at(phases: Sequence[Phase], at_s: float) -> tuple[Phase, bool]:
    """The phase of a time, and whether its verdict is due."""
    phase = [each for each in phases if each.begins_s <= at_s][-1]
    return phase, at_s >= phase.begins_s + phase.evidence_s + GRACE_S


def _was_trouble(phases: Sequence[Phase], at_s: float) -> bool:
    """True if trouble has ended within the grace."""
    phase, is_known = _phase_at(phases, at_s)
    before = [each for each in phases if each.begins_s < phase.begins_s]
    return not is_known and bool(before) and before[-1].is_trouble


def _holds(look: Look, phase: Phase) -> bool:
    return look.verdict is not None and phase.holds(look.verdict.status, look.verdict.cause)


def _spans(phases: Sequence[Phase]) -> Iterator[tuple[Phase, float]]:
    for number, phase in enumerate(phases):
        yield phase, phases[number + 1].begins_s if number + 1 < len(phases) else float("inf")


def _delay_s(looks: Sequence[Look], phase: Phase, end_s: float) -> float | None:
    known_s = phase.begins_s + phase.evidence_s
    within = [look for look in looks if phase.begins_s <= look.at_s < end_s]
    return next((max(0.0, look.at_s - known_s) for look in within if _holds(look, phase)), None)


def _told(look: Look) -> str:
    status, cause = look.named
    return f"{look.at_s:g} s: {status} {cause}"
