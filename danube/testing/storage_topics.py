"""Which topics a simulated broker has, as its metadata store knows it: made and deleted in one transaction each."""

from danube.metadata.draft import Draft, commit_draft
from danube.metadata.storage_records import bury
from danube.metadata.store import MetadataStore
from danube.runtime.rng import Rng

_FOLDER = "/simulated"


class SimTopics:
    """Topic ids by title. Every method raises MetadataError when the store fails."""

    def __init__(self, store: MetadataStore, rng: Rng) -> None:
        self._store = store
        self._rng = rng

    async def all(self) -> dict[str, int]:
        """The ids of the topics that exist, by title."""
        entries = await self._store.list(_FOLDER)
        return {entry.key.removeprefix(_FOLDER): int(entry.value) for entry in entries}

    async def create(self, title: str, topic_id: int) -> None:
        """Have a topic of this title, which no other has."""

        async def change(draft: Draft) -> None:
            if await draft.read(_FOLDER + title) is None:
                draft.put(_FOLDER + title, str(topic_id).encode())

        await commit_draft(self._store, self._rng, change)

    async def delete(self, title: str, topic_id: int) -> None:
        """Have the topic gone; a tombstone stays until its files are."""

        async def change(draft: Draft) -> None:
            if await draft.read(_FOLDER + title) is not None:
                draft.delete(_FOLDER + title)
                bury(draft, topic_id)

        await commit_draft(self._store, self._rng, change)
