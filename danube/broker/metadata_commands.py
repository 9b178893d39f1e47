"""What `danube-broker metadata` does: takes the metadata out of a store as one file, and puts it into another."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from danube.broker.data_folder import IDENTITY, DataFolder, open_data_folder
from danube.broker.meta_store import open_meta_store
from danube.broker.meta_store_settings import MetaStoreType
from danube.broker.settings import BrokerSettings
from danube.metadata.backup import Contents, contents_of, fill, for_cluster, is_empty, owned_by, take_image
from danube.metadata.cluster_records import own_cluster_id
from danube.metadata.image_format import decode_image, encode_image
from danube.metadata.state import StateImage
from danube.metadata.store import MetadataStore
from danube.model.errors import (
    DamagedDataError,
    DataFolderError,
    MetadataError,
    NotFoundError,
    PreconditionFailedError,
)
from danube.model.exit_codes import ExitCode
from danube.model.limits import METADATA_BACKUP_BYTES_MAX
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.console import say, write
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng

_PROGRAM = "danube-broker"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where metadata is kept."""

    store: MetadataStore
    kind: MetaStoreType
    folder: DataFolder | None
    """None where a service keeps it."""


def backup(settings: BrokerSettings, data_dir: Path, file: Path, *, as_json: bool) -> ExitCode:
    """Write all of it to a file."""
    image = asyncio.run(_taken(settings, data_dir))
    packed = b"".join(encode_image(image))
    try:
        LocalDisk(file.absolute().parent).replace_file(file.name, packed)
    except OSError as error:
        raise DataFolderError(f"cannot write {file}: {error.strerror or error}") from None
    return _tell(contents_of(image), f"Wrote {len(packed):,} bytes to {file}.", as_json=as_json)


def restore(settings: BrokerSettings, data_dir: Path, file: Path, *, force: bool, as_json: bool) -> ExitCode:
    """Put a backup into the store that the settings name."""
    image = _read(file)
    where, is_done = asyncio.run(_filled(settings, data_dir, image, force=force))
    if not is_done:
        say(f"nothing was changed: {where} is not empty; what is in it goes with --force", _PROGRAM)
        return ExitCode.NEEDS_YES
    return _tell(contents_of(image), f"Put into {where}.", as_json=as_json)


def inspect(settings: BrokerSettings, data_dir: Path, file: Path | None, *, as_json: bool) -> ExitCode:
    """Show what is in a backup, or in the store that the settings name."""
    image = _read(file) if file is not None else asyncio.run(_taken(settings, data_dir))
    return _tell(contents_of(image), "", as_json=as_json)


async def _taken(settings: BrokerSettings, data_dir: Path) -> StateImage:
    async with _opened(settings, data_dir, is_new=False) as place:
        if place.folder is not None:
            cluster_id = await own_cluster_id(place.store, SystemRng())
            place.folder.adopt(cluster_id, is_shared=place.kind.is_shared)
        image = await take_image(place.store)
        return image if place.folder is None else owned_by(image, place.folder.broker_id)


async def _filled(settings: BrokerSettings, data_dir: Path, image: StateImage, *, force: bool) -> tuple[str, bool]:
    """Where it was put, and whether it was."""
    async with _opened(settings, data_dir, is_new=True) as place:
        where = f"{place.kind} in {data_dir}" if place.folder is not None else f"{place.kind} below {_root(settings)}"
        if not force and not await is_empty(place.store):
            return where, False
        if place.kind.is_shared:
            image = for_cluster(image)
        elif place.folder is not None:
            _require_own(image, place.folder)
        await fill(place.store, SystemRng(), image, replacing=force)
        return where, True


def _require_own(image: StateImage, folder: DataFolder) -> None:
    others = [owner for owner, _ in contents_of(image).owners if owner not in {0, folder.broker_id}]
    if others:
        raise PreconditionFailedError(
            f"{folder.path} is of broker {folder.broker_id}, which stands alone, and the backup has topics of others "
            f"({', '.join(map(str, others[:5]))}): restore it into the metadata of a cluster"
        )


@asynccontextmanager
async def _opened(settings: BrokerSettings, data_dir: Path, *, is_new: bool) -> AsyncIterator[_Place]:
    """The store that the settings name, while no broker runs on the data folder if it is kept there."""
    kind, clock, rng = settings.meta_store.type, SystemClock(), SystemRng()
    if kind is MetaStoreType.MEMORY:
        raise PreconditionFailedError("metadata in memory is gone when its broker ends: there is nothing to back up")
    async with AsyncExitStack() as parts:
        runner = BlockingThread("metadata-folder")
        parts.push_async_callback(runner.aclose)
        folder = None
        if kind in {MetaStoreType.SQLITE, MetaStoreType.RAFT}:
            if not is_new and not (data_dir / IDENTITY).exists():
                raise DataFolderError(f"{data_dir} is not the data folder of a broker: name it with --data-dir")
            folder = await runner.run(lambda: open_data_folder(data_dir, rng, is_shared=kind.is_shared))
            parts.callback(folder.lock.release)
        opened = await open_meta_store(settings.meta_store, folder, clock, rng, runner)
        parts.push_async_callback(opened.store.close)
        yield _Place(opened.store, kind, folder)


def _read(file: Path) -> StateImage:
    try:
        with file.open("rb") as opened:
            packed = opened.read(METADATA_BACKUP_BYTES_MAX + 1)
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {file}") from None
    except OSError as error:
        raise DataFolderError(f"cannot read {file}: {error.strerror}") from None
    try:
        if len(packed) > METADATA_BACKUP_BYTES_MAX:
            raise MetadataError(f"it is larger than {METADATA_BACKUP_BYTES_MAX:,} bytes")
        return decode_image(packed)
    except MetadataError as error:
        raise DamagedDataError(f"{file} is no whole backup of metadata: {error}") from error


def _root(settings: BrokerSettings) -> str:
    return settings.meta_store.root


def _tell(contents: Contents, done: str, *, as_json: bool) -> ExitCode:
    if as_json:
        value = {
            "cluster_id": contents.cluster_id,
            "revision": contents.revision,
            "keys": contents.keys,
            "bytes": contents.bytes,
            "families": dict(contents.families),
            "topics_of_brokers": {str(owner): topics for owner, topics in contents.owners},
        }
        write(json.dumps(value, indent=2) + "\n")
        return ExitCode.OK
    families = "\n".join(f"  {name:<16}{count:>9,}" for name, count in contents.families)
    owners = "\n".join(f"  {owner or 'nobody':<22}{topics:>9,}" for owner, topics in contents.owners)
    text = f"""Cluster:   {contents.cluster_id or "-"}
Revision:  {contents.revision:,}
Keys:      {contents.keys:,} ({contents.bytes:,} bytes)
{families}
Topics of brokers:
{owners or "  none"}
"""
    write(f"{done}\n\n{text}" if done else text)
    return ExitCode.OK
