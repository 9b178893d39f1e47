"""Roles, bindings, revocations and API keys as records of the metadata store."""

from collections.abc import Callable
from typing import TypeVar

from danube.metadata.records import keys
from danube.metadata.records.record_values import record_values
from danube.metadata.records.subscriptions import ExtraWrites, add_extra_writes
from danube.metadata.store import Entry, MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.errors import LimitReachedError, NotFoundError
from danube.model.limits.security import API_KEYS_MAX, BINDINGS_MAX, REVOCATIONS_MAX, ROLES_MAX
from danube.model.security.credentials import ApiKey, Revocation
from danube.model.security.grants import Binding, Role
from danube.runtime.rng import Rng

T = TypeVar("T")


def _key_of(binding: Binding) -> str:
    return keys.security_binding(binding.scope, binding.resource_name, binding.id)


encode_role, decode_role = record_values(Role, lambda role: keys.security_role(role.name))
encode_binding, decode_binding = record_values(Binding, _key_of)
encode_revocation, decode_revocation = record_values(Revocation, lambda one: keys.security_revocation(one.id))
encode_api_key, decode_api_key = record_values(ApiKey, lambda one: keys.security_api_key(one.id))


class SecurityRecords:
    """The records of security in a metadata store. Every method raises MetadataError when the store fails."""

    def __init__(self, store: MetadataStore, rng: Rng) -> None:
        self._store = store
        self._rng = rng

    async def put_role(self, role: Role) -> None:
        """Keep a role, in place of one of the same name. Raises LimitReachedError."""
        await self._put(keys.security_role(role.name), encode_role(role), keys.SECURITY_ROLES, ROLES_MAX)

    async def delete_role(self, name: str, extra_writes: ExtraWrites | None = None) -> None:
        """Remove a role. Raises NotFoundError."""
        await self._delete(keys.security_role(name), f"there is no role {name}", extra_writes)

    async def put_binding(self, binding: Binding) -> None:
        """Keep a binding, in place of one of the same id within its scope. Raises LimitReachedError."""
        await self._put(_key_of(binding), encode_binding(binding), keys.SECURITY_BINDINGS, BINDINGS_MAX)

    async def delete_binding(self, binding: Binding, extra_writes: ExtraWrites | None = None) -> None:
        """Remove a binding. Raises NotFoundError."""
        await self._delete(_key_of(binding), f"there is no binding {binding.id}", extra_writes)

    async def put_revocation(self, revocation: Revocation, extra_writes: ExtraWrites | None = None) -> None:
        """Keep a revocation. Raises LimitReachedError."""
        key, value = keys.security_revocation(revocation.id), encode_revocation(revocation)
        await self._put(key, value, keys.SECURITY_REVOCATIONS, REVOCATIONS_MAX, extra_writes)

    async def put_api_key(self, api_key: ApiKey) -> None:
        """Keep an API key. Raises LimitReachedError."""
        key = keys.security_api_key(api_key.id)
        await self._put(key, encode_api_key(api_key), keys.SECURITY_API_KEYS, API_KEYS_MAX)

    async def delete_api_key(self, key_id: str, extra_writes: ExtraWrites | None = None) -> None:
        """Remove an API key. Raises NotFoundError."""
        await self._delete(keys.security_api_key(key_id), f"there is no API key {key_id}", extra_writes)

    async def _put(
        self, key: str, value: bytes, root: str, entries_max: int, extra_writes: ExtraWrites | None = None
    ) -> None:
        async def change(builder: TransactionBuilder) -> None:
            if await builder.read(key) is None and len(await self._store.list(root)) >= entries_max:
                raise LimitReachedError(f"there are {entries_max} records below {root} already, the most there may be")
            builder.put(key, value)
            await add_extra_writes(extra_writes, builder)

        await commit_transaction(self._store, self._rng, change)

    async def _delete(self, key: str, missing: str, extra_writes: ExtraWrites | None) -> None:
        async def change(builder: TransactionBuilder) -> None:
            if await builder.read(key) is None:
                raise NotFoundError(missing)
            builder.delete(key)
            await add_extra_writes(extra_writes, builder)

        await commit_transaction(self._store, self._rng, change)


DECODERS: dict[str, Callable[[Entry], Role | Binding | Revocation | ApiKey]] = {
    keys.SECURITY_ROLES: decode_role,
    keys.SECURITY_BINDINGS: decode_binding,
    keys.SECURITY_REVOCATIONS: decode_revocation,
    keys.SECURITY_API_KEYS: decode_api_key,
}
"""By the root of the keys."""
