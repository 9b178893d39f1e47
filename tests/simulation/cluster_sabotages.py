"""Sabotages of the care for owners of topics: each takes one rule out, and a seed of whole clusters notices.

`python -m tests.simulation.cluster_sabotages` looks for the first seed of each anew.
"""

import pytest

from danube.broker.cluster.log_copy import LogCopy
from danube.broker.cluster.log_offer import LogOffers
from danube.broker.ownership.owner import TopicOwner
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records import storage
from danube.metadata.records.storage import StorageRecords
from danube.metadata.store import Transaction
from danube.metadata.watch import WatchHub
from danube.model.calls.carry import CarryOffer, CarryStep, PrepareCarry
from danube.storage.takeover.steps import Step
from lab.simulation import CLUSTER
from tests.simulation.sabotage import Sabotaged, search
from tests.simulation.sabotages import is_found, leave_out, leave_out_syncs


def own_without_comparing(patch: pytest.MonkeyPatch) -> None:
    """Write an ownership whoever has changed it meanwhile."""
    original = storage._transaction

    def transaction(records: list[storage.TopicStorage], transaction_id: str, stands: object = ()) -> Transaction:
        made = original(records, transaction_id)
        return Transaction(made.transaction_id, (), made.writes)

    patch.setattr(storage, "_transaction", transaction)


def own_a_copy_whatever_its_owner_did(patch: pytest.MonkeyPatch) -> None:
    """Own a log that was copied by the ownership as it is now, not by the one that the pause named."""

    async def own(self: LogCopy) -> None:
        manifest, _ = await self._offer(CarryStep.PAUSE)
        await self._copy(manifest, is_paced=False)
        await self._storage.carry.put_manifest(manifest)
        record = await self._stored.get(self._record.topic_id, linearizable=True)
        (owned,) = await self._stored.own([record], self._broker_id)
        self._storage.carry.adopt(owned, manifest)

    patch.setattr(LogCopy, "_own_as_offered", own)


def list_nothing_after_a_lost_watch(patch: pytest.MonkeyPatch) -> None:
    """Go on with a watch whose events were lost."""
    patch.setattr(WatchHub, "reset", lambda _: None)


def leave_cursors_behind(patch: pytest.MonkeyPatch) -> None:
    """Release a topic with the cursors that happen to be durable."""

    async def save_cursors(_: ReliableTopic) -> None:
        return None

    patch.setattr(ReliableTopic, "save_cursors", save_cursors)


def resume_in_the_same_epoch(patch: pytest.MonkeyPatch) -> None:
    """Serve a topic again that was paused for its next owner, without a new epoch."""
    original = StorageRecords.own

    async def own(
        self: StorageRecords, records: list[storage.TopicStorage], broker_id: int
    ) -> list[storage.TopicStorage]:
        changed = await original(self, [one for one in records if one.owner != broker_id], broker_id)
        return [*changed, *(one for one in records if one.owner == broker_id)]

    patch.setattr(StorageRecords, "own", own)


def remove_files_once_they_are_offered(patch: pytest.MonkeyPatch) -> None:
    """Remove a log as soon as its topic is paused, not once metadata names its next owner."""
    original = LogOffers.prepare

    async def prepare(self: LogOffers, wanted: PrepareCarry) -> CarryOffer:
        offer = await original(self, wanted)
        if wanted.step is CarryStep.PAUSE:
            self._storage.carry._drop(wanted.topic_id)
            self._storage.carry._remove(wanted.topic_id)
        return offer

    patch.setattr(LogOffers, "prepare", prepare)


def remove_a_copy_that_may_be_owned_yet(patch: pytest.MonkeyPatch) -> None:
    """Remove what was copied though no answer came whether its topic is this broker's."""

    async def outcome(self: StorageRecords, topic_id: int) -> storage.TopicStorage:
        return await self.get(topic_id, linearizable=True)

    patch.setattr(StorageRecords, "outcome", outcome)


def start_in_the_same_epoch(patch: pytest.MonkeyPatch) -> None:
    """Serve topics after a start without a new epoch, whatever was offered before."""

    async def void_offers(_self: TopicOwner, _mine: object, _stored: object) -> None:
        return None

    patch.setattr(TopicOwner, "_void_offers", void_offers)


CLUSTER_SABOTAGES = [
    Sabotaged("owner: a dead one is fenced before its journal is read", leave_out(Step.FENCE), 0, CLUSTER),
    Sabotaged("owner: nothing is acknowledged before it is durable", leave_out_syncs, 1, CLUSTER),
    Sabotaged("owner: by compare-and-set", own_without_comparing, 0, CLUSTER),
    Sabotaged("move: cursors are durable before the topic is released", leave_cursors_behind, 8, CLUSTER),
    Sabotaged("carry: files go once metadata names the next owner", remove_files_once_they_are_offered, 1, CLUSTER),
    Sabotaged("view: what a lost watch missed is listed", list_nothing_after_a_lost_watch, 25, CLUSTER),
]
NOT_FOUND_YET = [
    Sabotaged("carry: files go once no own is unanswered", remove_a_copy_that_may_be_owned_yet, 513, CLUSTER),
    Sabotaged("carry: an owner that starts has a new epoch", start_in_the_same_epoch, 0, CLUSTER),
    Sabotaged("carry: by the revision that the pause named", own_a_copy_whatever_its_owner_did, 0, CLUSTER),
    Sabotaged("carry: an owner that resumes has a new epoch", resume_in_the_same_epoch, 0, CLUSTER),
]
"""Sabotages that no seed has been found for."""


if __name__ == "__main__":
    search([*CLUSTER_SABOTAGES, *NOT_FOUND_YET], is_found)
