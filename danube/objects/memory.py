"""An object store in memory: what the contract says, for tests, trials and simulations."""

import threading
from collections.abc import Iterable, Sequence

from danube.objects.store import ObjectInfo, Tagged, joined
from danube.runtime.disk import Buffer


class MemoryObjects:
    """An `ObjectStore` in memory; several users may share one."""

    def __init__(self) -> None:
        self._objects: dict[str, Tagged] = {}
        self._versions = 0
        self._lock = threading.Lock()

    def get(self, name: str, position: int = 0, length: int | None = None) -> bytes:
        data = self.get_tagged(name).data
        return data[position:] if length is None else data[position : position + length]

    def get_tagged(self, name: str) -> Tagged:
        try:
            return self._objects[name]
        except KeyError:
            raise FileNotFoundError(f"{name} is not in the object store") from None

    def put(self, name: str, chunks: Sequence[Buffer]) -> None:
        with self._lock:
            self._store(name, chunks)

    def put_if_absent(self, name: str, chunks: Sequence[Buffer]) -> None:
        with self._lock:
            if name in self._objects:
                raise FileExistsError(f"{name} is in the object store already")
            self._store(name, chunks)

    def swap(self, name: str, chunks: Sequence[Buffer], tag: str) -> None:
        with self._lock:
            if self.get_tagged(name).tag != tag:
                raise FileExistsError(f"{name} was changed meanwhile")
            self._store(name, chunks)

    def size(self, name: str) -> int:
        return len(self.get_tagged(name).data)

    def listing(self, prefix: str, after: str = "") -> list[ObjectInfo]:
        with self._lock:
            found = [ObjectInfo(name, len(one.data)) for name, one in self._objects.items() if name.startswith(prefix)]
        return sorted(one for one in found if one.name > after)

    def folders(self, prefix: str) -> list[str]:
        below = (one.name[len(prefix) :].split("/", 1) for one in self.listing(prefix))
        return sorted({parts[0] for parts in below if len(parts) > 1})

    def delete(self, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                self._objects.pop(name, None)

    def close(self) -> None:
        return None

    def _store(self, name: str, chunks: Sequence[Buffer]) -> None:
        self._versions += 1
        self._objects[name] = Tagged(joined(chunks), str(self._versions))
