"""Every simulation by its kind: everything that happens in a run follows from its seed, in any process.

python -m lab.simulation --seeds 1000
"""

import asyncio
import sys
from collections.abc import Sequence

from danube.model.plans.durability import Durability
from lab.cluster import judge as cluster
from lab.folders.trials import FolderTrial
from lab.kernel.chance import seeded
from lab.kernel.judge import Violation, check, what_must_work_works
from lab.kernel.seeds import Outcome, Simulate, run_seeds
from lab.raft import courses
from lab.raft import world as raft
from lab.shared_log import world as shared_log
from lab.storage.course import run_lives
from lab.storage.damage import Damaged
from lab.storage.old_metadata import OldMetadata
from lab.storage.world import plan_settings, plan_world
from lab.takeover.judge import JudgedRun

POWER_CUTS, KILLS, LATE_SYNCS, DAMAGE, SHARED = "power-cuts", "kills", "late-syncs", "damage", "shared"
OLD_METADATA, FOLDERS, RAFT, ALONE, SHARED_LOG, CLUSTER = (
    "old-metadata",
    "folders",
    "raft",
    "alone",
    "shared-log",
    "cluster",
)
_WEAK = (Durability.INTERVAL, Durability.OS)


def simulate_power_cuts(seed: int) -> Outcome:
    """Run storage and dispatch through lives full of faults, which end in kills and power cuts."""
    return _simulate_lives(POWER_CUTS, seed, [Durability.FSYNC])


def simulate_kills(seed: int) -> Outcome:
    """Run the same with weaker durability, which promises as much as long as the power stays on."""
    return _simulate_lives(KILLS, seed, _WEAK)


def simulate_late_syncs(seed: int) -> Outcome:
    """Run weaker durability through power cuts: the newest messages may go, and nothing else is harmed."""
    return _simulate_lives(LATE_SYNCS, seed, _WEAK)


def _simulate_lives(kind: str, seed: int, durabilities: Sequence[Durability]) -> Outcome:
    chance = seeded(seed)
    durability = chance.choice(durabilities) if len(durabilities) > 1 else durabilities[0]
    world = plan_world(chance)
    run_lives(world, plan_settings(chance, durability), may_lose_power=kind != KILLS)
    return Outcome(kind, seed, world.history, world.lives, check(world.history, after_loss=kind == LATE_SYNCS))


def simulate_damage(seed: int) -> Outcome:
    """Have a broker store something, damage one file, and judge what the next broker says and answers."""
    chance = seeded(seed)
    world = plan_world(chance)
    damaged = Damaged(world, plan_settings(chance, Durability.FSYNC), chance)
    damaged.run()
    damage = damaged.damage
    lives = [f"{damage.name}: {damage.what}" if damage else "nothing was damaged", *damaged.told]
    violations = _violations("damage is told, and its own topic's only", damaged.faults)
    return Outcome(DAMAGE, seed, world.history, lives, [*violations, *what_must_work_works(world.history)])


def simulate_old_metadata(seed: int) -> Outcome:
    """Put an old copy of metadata under a full folder, have a broker work on it, and judge what the newest finds."""
    chance = seeded(seed)
    world = plan_world(chance)
    run = OldMetadata(world, plan_settings(chance, Durability.FSYNC, is_full=False))
    run.run()
    violations = _violations("no topic id is given out under which something is stored", run.faults)
    violations += [one for one in check(world.history) if not run.explains(one)]
    return Outcome(OLD_METADATA, seed, world.history, world.lives, violations)


def simulate_shared(seed: int) -> Outcome:
    """Have brokers over one shared folder take topics from each other, die and come back, and judge what is there."""
    run = JudgedRun(seed, lambda chance: plan_settings(chance, Durability.FSYNC, is_full=False))
    asyncio.run(run.run())
    return _outcome(SHARED, seed, "a shared folder keeps what a broker's own does", run.faults, run.happened)


def simulate_folders(seed: int) -> Outcome:
    """Damage a real data folder, have it verified and repaired, start brokers on it, and judge what clients get."""
    trial = FolderTrial(seed)
    trial.run()
    rule = "no wrong byte, no loss without a word, and a repaired folder starts"
    return _outcome(FOLDERS, seed, rule, trial.faults, trial.story)


def simulate_raft(seed: int) -> Outcome:
    """Have a Raft group lose power, connections and members; the seed says by which course."""
    course = [*courses.COURSES][seed % len(courses.COURSES)]
    return _outcome(RAFT, seed, "a group agrees on one sequence", raft.simulate(seed, course).violations, [course])


def simulate_alone(seed: int) -> Outcome:
    """Have a group of one lose power, room and its disk, at any point of its writes."""
    found = raft.simulate(seed, courses.ALONE.name).violations
    return _outcome(ALONE, seed, "what stands alone keeps what it acknowledged", found, [])


def simulate_shared_log(seed: int) -> Outcome:
    """Have members share a log in a service that is slow, silent or away."""
    seen = shared_log.simulate(seed)
    return _outcome(SHARED_LOG, seed, "members of a shared log agree", seen.violations, [])


def simulate_cluster(seed: int) -> Outcome:
    """Have whole brokers move topics, die, sleep and be cut off, over a shared folder or disks of their own."""
    settings = plan_settings(seeded(f"storage of cluster {seed}"), Durability.FSYNC, is_full=False)
    seen = cluster.simulate(seed, settings)
    return _outcome(CLUSTER, seed, "topics that move lose nothing, and are served", seen.faults, seen.happened)


def _outcome(kind: str, seed: int, promise: str, faults: Sequence[str], story: Sequence[str]) -> Outcome:
    return Outcome(kind, seed, [], story, _violations(promise, faults))


def _violations(promise: str, faults: Sequence[str]) -> list[Violation]:
    return [Violation(promise, fault) for fault in faults]


KINDS: dict[str, Simulate] = {
    POWER_CUTS: simulate_power_cuts,
    KILLS: simulate_kills,
    LATE_SYNCS: simulate_late_syncs,
    DAMAGE: simulate_damage,
    OLD_METADATA: simulate_old_metadata,
    SHARED: simulate_shared,
    FOLDERS: simulate_folders,
    RAFT: simulate_raft,
    ALONE: simulate_alone,
    SHARED_LOG: simulate_shared_log,
    CLUSTER: simulate_cluster,
}
"""By name. The first three have failing, full and slow disks and clocks that jump, too."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds as the command line asks; answers the exit code."""
    about = "Runs storage, data folders and metadata through power cuts, kills, and failing and damaged disks, by seed."
    return run_seeds(KINDS, about, arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
