"""What a broker does for its storage besides serving, as steps of a simulation, and what has to be true after it."""

import asyncio

from danube.storage.segment.manifest import folder_of, manifest_name, segment_name
from lab.kernel.history import Failed
from lab.storage.life import StorageLife
from lab.storage.world import World

_CUTS_MAX = 20  # passes that a small journal needs at most


def rotate(life: StorageLife, _: World) -> None:
    """Have the journal go on in a new file."""
    life.spawn(life.storage._journal.rotate, "rotate")  # noqa: SLF001 - otherwise only age does it


def flush(life: StorageLife, _: World) -> None:
    """Have closed journal files cut into segments."""
    life.spawn(life.storage.flush, "cut")


def retain(life: StorageLife, world: World) -> None:
    """Have topics let go of what they need not keep."""
    unread = {topic.plan.topic_id: topic for topic in life.topics}
    life.spawn(
        lambda: life.storage.retain(
            lambda topic_id: world.topics[topic_id].retention,
            lambda topic_id: unread[topic_id].oldest_unread if topic_id in unread else 0,
        ),
        "retain",
    )


def sweep(life: StorageLife, _: World) -> None:
    """Have the files of deleted topics removed."""
    life.spawn(life.storage.sweep_deleted, "sweep")


async def check_upkeep(life: StorageLife, world: World) -> None:
    """Without faults everything can be cut and swept; note what is left over then."""
    storage = life.storage
    _check_background(life)
    await storage._journal.rotate()  # noqa: SLF001 - otherwise only age does it
    for _ in range(_CUTS_MAX):
        if not storage._journal.closed_files():  # noqa: SLF001 - what is left is what is judged
            break
        await storage.flush()
    else:
        life.note(Failed("", "closed journal files are never gone"))
    await storage.sweep_deleted()
    await storage.sweep_orphans()
    if storage.stats.troubled_topics:
        life.note(Failed("", f"{storage.stats.troubled_topics} topics cannot be cut"))
    _check_files(life, world)


def _check_background(life: StorageLife) -> None:
    running = {task.get_name() for task in asyncio.all_tasks()}
    for name in ("storage/space", "storage/cutting"):
        if name not in running:
            life.note(Failed("", f"the task {name} has ended"))


def _check_files(life: StorageLife, world: World) -> None:
    """Nothing is on the disk that nobody needs."""
    needed = {"lock"}
    for history in life.storage._topics.histories:  # noqa: SLF001 - what is kept of each topic is what is judged
        manifest = history.manifest
        needed.add(manifest_name(manifest.topic_id, manifest.generation))
        needed.update(segment_name(manifest.topic_id, segment) for segment in manifest.segments)
    found = {name for name in life.disk.contents() if not name.startswith("journal/")}
    if found != needed:
        left, gone = sorted(found - needed), sorted(needed - found)
        life.note(Failed("", f"files that nobody needs: {left}; files that are missing: {gone}"))
    for plan in world.topics.values():
        if plan.deleted and life.disk.exists(folder_of(plan.topic_id)):
            life.note(Failed(plan.name, "the folder of a deleted topic is still there"))
