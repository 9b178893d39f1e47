"""Which topics a simulated broker has, as its metadata store knows it: made and deleted in one transaction each."""

from danube.metadata.records.storage import add_tombstone
from danube.metadata.store import MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
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

        async def change(builder: TransactionBuilder) -> None:
            if await builder.read(_FOLDER + title) is None:
                builder.put(_FOLDER + title, str(topic_id).encode())

        await commit_transaction(self._store, self._rng, change)

    async def delete(self, title: str, topic_id: int) -> None:
        """Have the topic gone; a tombstone stays until its files are."""

        async def change(builder: TransactionBuilder) -> None:
            if await builder.read(_FOLDER + title) is not None:
                builder.delete(_FOLDER + title)
                add_tombstone(builder, topic_id)

        await commit_transaction(self._store, self._rng, change)
