"""A course: situations played side by side in one world, and every verdict on them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from danube.model.lag.group import PartitionLag
from danube.model.lag.records import judge_all
from danube.model.lag.verdict import LagPolicy, LagVerdict
from danube.model.records.telemetry import Reading, Stamp
from lab.lag.judge import Look
from lab.lag.stage import Situation, Stage
from lab.lag.truth import Ledger
from lab.lag.world import World

LOOK_S = 15.0
ASIDE_S = 0.37
"""Clients begin so much beside telemetry and looks, so that nothing happens at the moment of either."""


@dataclass(slots=True, kw_only=True)
class Played:
    """One situation, the verdicts on it, and what its clients know."""

    situation: Situation
    ledger: Ledger
    live: list[Look] = field(default_factory=list)
    """Verdicts as they were read while it went on."""
    job: list[Look] = field(default_factory=list)
    """Verdicts that the job gives from the telemetry of the whole course."""
    began_ms: int = 0
    """Second 0 of the course, by the clock of the broker."""
    telemetry: list[tuple[Stamp, Reading]] = field(default_factory=list)
    """Records of its topic."""

    def looks(self, face: str) -> list[Look]:
        """Those of `live` or `job`."""
        return self.live if face == "live" else self.job


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Situations that go on side by side, for so long."""

    situations: Sequence[Situation]
    end_s: float
    disturbed: tuple[float, Callable[[World], Awaitable[None]]] | None = None
    """A second, and what happens to the whole world then."""
    skew_s: float = 0.0
    """So far the clock of who asks is ahead of the broker's."""
    brokers: int = 1
    look_s: float = LOOK_S
    """Between two looks."""


async def play(folder: Path, course: Course) -> dict[str, Played]:
    """Play the situations of a course; by name."""
    situations, disturbed = course.situations, course.disturbed
    async with World(folder, course.brokers) as world:
        began_s = world.clock.monotonic_s() + ASIDE_S
        began_ms = world.clock.now_ms() + round(ASIDE_S * 1_000)
        stages = {each.name: Stage(world, each.name.replace(" ", "-"), began_s) for each in situations}
        played = {
            each.name: Played(situation=each, ledger=stages[each.name].ledger, began_ms=began_ms) for each in situations
        }
        for each in situations:
            stages[each.name].spawn(_begun(stages[each.name], each))
        looked: list[float] = []
        for at_s in (course.look_s * number for number in range(1, int(course.end_s / course.look_s) + 1)):
            if disturbed is not None and at_s - course.look_s <= disturbed[0] < at_s:
                await world.run_until(began_s + disturbed[0])
                await disturbed[1](world)
            if began_s + at_s < world.clock.monotonic_s():
                continue  # nobody could look meanwhile
            await world.run_until(began_s + at_s)
            looked.append(at_s)
            for name, verdict in _by_name(stages, await world.verdicts(course.skew_s)).items():
                played[name].live.append(Look(at_s, verdict, at_s))
        records = await world.telemetry()
    for name, stage in stages.items():
        played[name].telemetry = [each for each in records if getattr(each[1], "topic", None) == str(stage.watched)]
    for at_s in looked:
        at_ms = began_ms + round(at_s * 1_000)
        known = [record for record in records if record[0].at_ms <= at_ms]
        for name, verdict in _by_name(stages, judge_all(known, at_ms, LagPolicy())).items():
            observed_ms = verdict.observed_ms if verdict is not None else None
            seen_s = at_s if observed_ms is None else (observed_ms - began_ms) / 1_000
            played[name].job.append(Look(at_s, verdict, seen_s))
    return played


async def _begun(stage: Stage, situation: Situation) -> None:
    await stage.until(0.0)
    await situation.play(stage)


def _by_name(stages: Mapping[str, Stage], found: Sequence[PartitionLag]) -> dict[str, LagVerdict | None]:
    told = {one.topic: one.verdict for one in found}
    return {name: told.get(str(stage.watched)) for name, stage in stages.items()}
