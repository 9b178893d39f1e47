"""Opens the object store that settings name, with the probe that a store must pass before it is trusted to fence."""

import secrets

from danube.model.errors import DanubeError, DataFolderError, SettingsError, StorageUnavailableError
from danube.model.text import install_text
from danube.objects.memory import MemoryObjects
from danube.objects.place import Adapter, ObjectPlace
from danube.objects.store import ObjectStore, StoreBusyError, StoreRefusedError, Tagged
from danube.runtime.rng import Rng

PROBES = "probes"


def open_objects(place: ObjectPlace) -> ObjectStore:
    """The store of `place`, with the library that it asks for. Raises SettingsError when that is not installed."""
    try:
        if place.scheme == "memory" and place.adapter is Adapter.S3FS:
            return MemoryObjects()
        if place.adapter is Adapter.OBSTORE or place.scheme != "s3":
            from danube.objects.obstore_store import ObstoreStore  # noqa: PLC0415 - an extra

            return ObstoreStore(place)
        from danube.objects.s3 import S3Store  # noqa: PLC0415 - an extra

        return S3Store(place)
    except ImportError as error:
        extra = "obstore" if place.adapter is Adapter.OBSTORE or place.scheme != "s3" else "s3"
        raise SettingsError(
            f"{error.name} is not installed, which reaches {place.url}: {install_text(extra)}"
        ) from error


def probe(store: ObjectStore, url: str, rng: Rng) -> None:
    """Try out whether the store honours conditions: without them it cannot fence, and two owners could both write.

    Raises DataFolderError, StorageUnavailableError.
    """
    name = f"{PROBES}/{rng.new_id():016x}{secrets.token_hex(4)}"
    try:
        store.put_if_absent(name, [b"first"])
        try:
            if _is_taken_twice(store, name) or _is_swapped_blindly(store, name):
                raise DataFolderError(
                    f"{url} does not honour conditional writes, and without them two owners of a topic could both"
                    " write: use a store that has If-None-Match and If-Match, as S3, GCS, Azure, MinIO do"
                )
        finally:
            store.delete([name])
    except OSError as error:
        raise unusable(error, url) from error


def _is_taken_twice(store: ObjectStore, name: str) -> bool:
    try:
        store.put_if_absent(name, [b"second"])
    except FileExistsError:
        return store.get(name) != b"first"
    return True


def _is_swapped_blindly(store: ObjectStore, name: str) -> bool:
    found: Tagged = store.get_tagged(name)
    store.swap(name, [b"third"], found.tag)
    try:
        store.swap(name, [b"fourth"], found.tag)
    except FileExistsError:
        return store.get(name) != b"third"
    return True


def unusable(error: OSError, url: str) -> DanubeError:
    """The error for a store that cannot be used: what is wrong, and what to do."""
    if isinstance(error, StoreRefusedError):
        return DataFolderError(str(error))
    if isinstance(error, StoreBusyError):
        return StorageUnavailableError(f"{error}. Check object_store.endpoint and the network, then try again")
    return StorageUnavailableError(f"{url} cannot be used: {error}. Check object_store")
