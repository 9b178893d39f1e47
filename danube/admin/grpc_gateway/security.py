"""Calls about security: roles and bindings, which the original's brokers have too, and ours."""

from abc import abstractmethod
from collections.abc import Sequence

from danube.admin.grpc_gateway.broker_connection import Answer, Request
from danube.admin.grpc_gateway.calls import AdminCalls
from danube.model.calls.security import (
    AccessExplained,
    ApiKeyCreated,
    ApiKeyInfo,
    BindingKey,
    BindingsOf,
    CreateApiKey,
    ExplainAccess,
)
from danube.model.errors import NotFoundError
from danube.model.security.credentials import Revocation
from danube.model.security.grants import Binding, Role
from danube.model.topic import TopicName
from danube.wire import admin_messages as admin
from danube.wire.codec import Codec
from danube.wire.security import messages

_GRANTS = "/danube_admin.SecurityAdmin"
_PROOFS = "/danube.control.Security"


class SecurityCalls:
    """The calls of `AdminGateway` about security."""

    _calls: AdminCalls

    @abstractmethod
    async def _ours(
        self,
        act: str,
        path: str,
        request: Codec[Request],
        value: Request,
        answer: Codec[Answer],
        *,
        at: TopicName | None = None,
    ) -> Answer: ...

    async def create_role(self, role: Role) -> None:
        await self._changed(f"{_GRANTS}/CreateRole", messages.CREATE_ROLE, role, messages.ROLE_CREATED)

    async def role(self, name: str) -> Role:
        return await self._calls.ask(f"{_GRANTS}/GetRole", messages.ROLE_NAME, name, messages.ROLE_FOUND)

    async def roles(self) -> Sequence[Role]:
        return await self._calls.ask(f"{_GRANTS}/ListRoles", admin.EMPTY, None, messages.ROLES)

    async def create_binding(self, binding: Binding) -> None:
        await self._changed(f"{_GRANTS}/CreateBinding", messages.CREATE_BINDING, binding, messages.BINDING_CREATED)

    async def binding(self, key: BindingKey) -> Binding:
        return await self._calls.ask(f"{_GRANTS}/GetBinding", messages.GET_BINDING, key, messages.BINDING_FOUND)

    async def bindings(self, wanted: BindingsOf) -> Sequence[Binding]:
        return await self._calls.ask(f"{_GRANTS}/ListBindings", messages.LIST_BINDINGS, wanted, messages.BINDINGS)

    async def all_bindings(self) -> Sequence[Binding]:
        return await self._calls.ask(f"{_GRANTS}/ListAllBindings", admin.EMPTY, None, messages.BINDINGS)

    async def explain_access(self, wanted: ExplainAccess) -> AccessExplained:
        act = "explain its decisions"
        return await self._ours(act, f"{_PROOFS}/Explain", messages.EXPLAIN, wanted, messages.EXPLAINED)

    async def exchange_api_key(self, key: str) -> str:
        return await self._calls.ask("/danube.AuthService/Authenticate", messages.AUTHENTICATE, key, messages.TOKEN)

    async def revocations(self) -> Sequence[Revocation]:
        act, path = "revoke tokens", f"{_PROOFS}/ListRevocations"
        return await self._ours(act, path, messages.LIST_REVOCATIONS, None, messages.REVOCATIONS)

    async def create_api_key(self, wanted: CreateApiKey) -> ApiKeyCreated:
        act, path = "keep API keys", f"{_PROOFS}/CreateApiKey"
        return await self._ours(act, path, messages.CREATE_API_KEY, wanted, messages.API_KEY_CREATED)

    async def api_keys(self) -> Sequence[ApiKeyInfo]:
        act, path = "keep API keys", f"{_PROOFS}/ListApiKeys"
        return await self._ours(act, path, messages.LIST_API_KEYS, None, messages.API_KEYS)

    async def _changed(self, path: str, request: Codec[Request], value: Request, answer: Codec[bool]) -> None:
        if not await self._calls.ask(path, request, value, answer):
            raise NotFoundError(f"the broker did not do it and does not say why ({path}): list what is there")
