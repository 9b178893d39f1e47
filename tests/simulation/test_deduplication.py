"""A producer with de-duplication through broken streams, failed rounds, kills and power cuts: each message once."""

import asyncio
import errno
import random
from collections.abc import Callable

import pytest

from danube.broker.topics import deduplication
from danube.broker.topics.deduplication import Sequences
from danube.storage.batches.producer_state import SequencedBatch, StoredProducerStates
from danube.storage.batches.stored_batch import AppendDone
from danube.storage.journal.contents import Recovered
from danube.testing.simulated.disk import MachineOffError, Operation
from tests.simulation.numbered_world import NumberedWorld

LIVES = 4
STEPS_MAX = 40


async def take_step(world: NumberedWorld, chance: random.Random) -> None:
    """Something happens, most often something ordinary."""
    match chance.choices(range(7), [8, 6, 4, 5, 2, 1, 1])[0]:
        case 0:
            world.send(chance.randint(1, 4))
        case 1:
            world.deliver(chance.randint(1, 5))
        case 2:
            world.read()
        case 3:
            await world.wait(chance.choice([0.001, 0.004, 0.05]))
        case 4:
            world.flush(unnoticed=chance.random() < 0.5)
        case 5:
            failing = chance.choice([Operation.APPEND, Operation.APPEND, Operation.SYNC, Operation.TRUNCATE])
            world.disk.fail(failing, chance.randint(1, 3), error=chance.choice([errno.EIO, errno.ENOSPC]))
        case 6:
            await world.cut_files()


async def simulate(seed: int) -> list[str]:
    """Violations at the end of some lives of a broker."""
    chance = random.Random(seed)
    world = NumberedWorld(seed)
    await world.restart()
    for _ in range(LIVES):
        if chance.random() < 0.4:
            world.disk.stop_at(chance.randint(1, 40))
        try:
            for _ in range(chance.randint(1, STEPS_MAX)):
                await take_step(world, chance)
        except MachineOffError:
            pass
        if chance.random() < 0.2 and not world.disk.is_off:
            await world.restart()
        else:
            await world.kill(power_cut=chance.random() < 0.5)
    return world.violations(await world.drain())


def test_each_message_is_stored_once_and_in_order(seed: int) -> None:
    violations = asyncio.run(simulate(seed))
    assert not violations, f"seed {seed}: {violations}"


def test_a_run_follows_from_its_seed() -> None:
    assert [asyncio.run(simulate(seed)) for seed in (3, 3)] == [[], []]


def forget_what_is_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredProducerStates, "offset_of", lambda *_: None)


def start_with_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovered, "_add_numbers", lambda *_: None)


def overlook_what_is_on_its_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deduplication, "_find", lambda *_: None)
    patch.setattr(Sequences, "_append_next", _append_blindly)


def _append_blindly(self: Sequences, batch: SequencedBatch, body: bytes, done: AppendDone) -> None:
    self._append(body, batch.records, done)


@pytest.mark.parametrize("rule", [forget_what_is_stored, start_with_nothing, overlook_what_is_on_its_way])
def test_without_one_of_its_rules_it_is_noticed(
    rule: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule(monkeypatch)
    assert any(asyncio.run(simulate(seed)) for seed in range(10))
