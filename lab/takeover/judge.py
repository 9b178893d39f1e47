"""Judgement of brokers that took topics from each other over one shared folder.

All die; the last broker takes everything over, and the others come back with nothing. Then what was acknowledged or
shown is at its offset for whoever looks, positions are not lost, and what nobody needs any more is gone.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from danube.model.errors import DanubeError, MetadataError, TopicNotServedError
from danube.model.limits.broker import FLUSH_RETRY_S
from danube.storage.batches.batch import encode_messages, records
from danube.storage.flush.manifest_lookup import load_history
from danube.storage.flush.orphans import highest_manifest_version
from danube.storage.journal.folder import Fence, listed_journals
from danube.storage.retention.rules import Retention
from danube.storage.segment.manifest import SEGMENTS, folder_of, manifest_name, segment_name
from danube.storage.takeover.shared_storage import SharedStorage
from danube.storage.tiers.directory import DirectoryTier
from lab.takeover.storages import BROKERS, SUBSCRIPTION, Life, SharedRun, StuckError, Topic, flush_once

LAST = 9
_ROUNDS_MAX = 20  # of begin, flush and remove, until nothing is left to do


class JudgedRun(SharedRun):
    """A run and its judgement; `faults` says what was wrong."""

    async def judge(self) -> None:
        """Everybody dies; one takes over, and everything has to be there, and nothing else."""
        if self.chance.random() < 0.5:
            self.lose_power()
        for number in [*self.lives]:
            self.end(number, "is gone")
        try:
            life = await self.take_everything()
            assert life.storage is not None  # noqa: S101 - it has started
            for number in BROKERS:
                await self.come_back(number)
            await self.patiently(settle_whole(life.storage), "the last settling")
            for topic_id in self.live():
                await self.patiently(self.check_topic(life, self.topics[topic_id]), f"reading topic {topic_id}")
            await self.write_once_more(life)
            await self.check_folder()
        except DanubeError as error:
            self.wrong(f"stuck: {error!r}")

    async def take_everything(self) -> Life:
        """The last broker begins with every topic; where nobody knew the outcome it asks again, or starts again."""
        for _ in range(_ROUNDS_MAX):
            life = await self.started(LAST)
            assert life.storage is not None  # noqa: S101 - it has started
            with contextlib.suppress(TopicNotServedError):
                if await self.owns_everything(life.storage):
                    return life
        raise StuckError(f"the last broker does not own all of {self.live()}")

    async def owns_everything(self, storage: SharedStorage) -> bool:
        """True if it does in the end. Raises TopicNotServedError when it has to be started again for that."""
        for _ in range(_ROUNDS_MAX):
            try:
                await self.patiently(storage.acquire(self.live()), "the last take-over")
            except MetadataError:
                continue  # metadata has not answered
            return storage.owned.issuperset(self.live())
        return False

    async def come_back(self, number: int) -> None:
        """A broker that died starts again: with no topics, and nothing of it that is not needed stays."""
        storage = (await self.started(number)).storage
        if storage is not None and storage.owned:
            self.wrong(f"broker {number} comes back with topics {sorted(storage.owned)}, which are another's")

    async def started(self, number: int) -> Life:
        """A broker that has started; metadata may not have answered the first time."""
        for _ in range(_ROUNDS_MAX):
            self.start(number)
            life = self.lives[number]
            await self.patiently(done_with(life.tasks), f"a start of broker {number}")
            if life.storage is not None:
                return life
        raise StuckError(f"broker {number} does not start: {self.happened[-1]}")

    async def check_topic(self, life: Life, topic: Topic) -> None:
        """All that was told is there."""
        log = self.log(life, topic)
        at, found = log.start_offset, dict[int, bytes]()
        while batches := await log.read(at, 10_000):
            for batch in batches:
                if batch.base_offset > at:
                    self.wrong(f"topic {topic.topic_id}: after {at} comes {batch.base_offset}")
                found[batch.base_offset] = bytes(records(batch.body, 0, 1)[0])
                at = batch.end_offset
        lost = {
            offset for offset in topic.told if offset >= log.start_offset and topic.told[offset] != found.get(offset)
        }
        if lost:
            self.wrong(f"topic {topic.topic_id}: lost or changed: {sorted(lost)}")
        if len({*found.values()}) != len(found):
            self.wrong(f"topic {topic.topic_id}: a message is there twice")
        if log.start_offset and not topic.retained:
            self.wrong(f"topic {topic.topic_id} begins at {log.start_offset}, and retention took nothing")
        cursor = log.cursor(SUBSCRIPTION)
        position = cursor.position if cursor else 0
        if not topic.confirmed <= position <= log.durable_end or log.start_offset > max(position, topic.confirmed):
            self.wrong(
                f"topic {topic.topic_id}: offsets {log.start_offset} to {log.durable_end}, the position "
                f"{topic.confirmed} was confirmed, there is {position}"
            )

    async def write_once_more(self, life: Life) -> None:
        """Append to topics with files of a flush that never counted: these go with the next flush."""
        assert life.storage is not None  # noqa: S101 - it has started
        tier = DirectoryTier(self.disk)
        for topic_id in self.live():
            newest = (await self.records.get(topic_id)).manifest_version
            names = tier.list(folder_of(topic_id))
            if highest_manifest_version(names) > newest:
                text = b"once more"
                self.topics[topic_id].sent.add(text)
                log = self.log(life, self.topics[topic_id])
                log.append_batch(encode_messages([text]), self.expect(life, self.topics[topic_id], lambda _: None))
        await self.patiently(settle_whole(life.storage), "the very last settling")

    async def check_folder(self) -> None:
        """Nothing is left that nobody needs."""
        for number in (*BROKERS, LAST):
            one = self.lives[number].storage
            assert one is not None  # noqa: S101 - it has started
            await self.patiently(settle_whole(one), f"settling of broker {number}")
            if left := one.journal.closed_files():
                self.wrong(f"stuck: broker {number} keeps {len(left)} closed files: {[sorted(f.topics) for f in left]}")
        tier, disk = DirectoryTier(self.disk), self.disk
        needed = set[str]()
        for topic_id in self.live():
            history = load_history(tier, await self.records.get(topic_id))
            if history.record.manifest_version:
                needed.add(manifest_name(topic_id, history.record.manifest_version))
            needed.update(segment_name(topic_id, segment) for segment in history.manifest.segments)
        there = {
            f"{folder_of(int(name))}/{file}" for name in disk.list(SEGMENTS) for file in disk.list(f"{SEGMENTS}/{name}")
        }
        if there != needed:
            self.wrong(f"stuck: left {sorted(there - needed)}; missing {sorted(needed - there)}")
        fenced = [folder for folder in listed_journals(disk).values() if Fence(disk, folder).is_up()]
        if fenced:
            self.wrong(f"stuck: journals that nobody needs are there: {fenced}")


async def done_with(tasks: Sequence["asyncio.Task[None]"]) -> None:
    """Wait for all of them."""
    await asyncio.gather(*tasks)


async def settle_whole(storage: SharedStorage) -> None:
    """Have everything done that is to be done; what failed is left alone for a while."""
    clock, topics = storage._environment.clock, storage.topics  # noqa: SLF001 - as above
    for _ in range(_ROUNDS_MAX):
        with contextlib.suppress(DanubeError):  # metadata has not answered
            await storage.sweep_deleted()
            await flush_once(storage)
            await storage.retain(lambda _: Retention(None, None), lambda _: None)  # learns what was not answered
            await storage.remove_journals()
            await storage.sweep_orphans()
            is_done = not storage.journal.closed_files() and not topics.histories.with_older_epochs
            if is_done and not any(topics.is_owned(each) for each in topics.stale):
                return
        await clock.sleep_until(clock.monotonic_s() + FLUSH_RETRY_S)
