"""Administration of security on one broker: roles, bindings, revocations, API keys, and the reason of a decision."""

import secrets
from collections.abc import Sequence
from dataclasses import replace

from danube.broker.security.current import current_principal
from danube.broker.security.directory import SecurityDirectory
from danube.metadata.records.subscriptions import ExtraWrites
from danube.metadata.security.records import SecurityRecords
from danube.model.calls.security import (
    AccessExplained,
    ApiKeyCreated,
    ApiKeyInfo,
    BindingKey,
    BindingsOf,
    CreateApiKey,
    ExplainAccess,
    RevokeTokens,
)
from danube.model.errors import (
    InvalidRequestError,
    NotFoundError,
    NotPermittedError,
    PreconditionFailedError,
    UnauthenticatedError,
)
from danube.model.limits.security import API_KEY_TOKEN_S
from danube.model.plans.plan import Effect
from danube.model.security.credentials import ApiKey, Revocation
from danube.model.security.grants import SYSTEM_ROLES, Binding, BindingScope, Permission, Role, check_binding
from danube.model.security.principal import Principal, PrincipalKind, PrincipalName, TokenScope
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng
from danube.security.api_keys import check_key, key_id_of, new_key
from danube.security.decision import CLUSTER, Rules, Target, topic_target
from danube.security.tokens import TokenClaims, issue

_BUILT_IN = {role.name for role in SYSTEM_ROLES}


class SecurityControl:
    """Reads answer what this broker follows; a change is in it when it is answered."""

    def __init__(
        self,
        directory: SecurityDirectory,
        records: SecurityRecords,
        clock: Clock,
        rng: Rng,
        *,
        issuer: str = "",
        secret: bytes | None = None,
    ) -> None:
        """`secret` signs the tokens that API keys are exchanged for; None: they cannot be exchanged."""
        self._directory = directory
        self._records = records
        self._clock = clock
        self._rng = rng
        self._issuer = issuer
        self._secret = secret

    async def create_role(self, role: Role) -> bool:
        """Keep a role, in place of one of the same name. Raises PreconditionFailedError for a built-in one.

        A role that would take administration away from everybody is refused.
        """
        _check_may_change()
        _check_not_built_in(role.name)
        role = replace(role, system=False)
        self._check_administered(roles=[*self._roles_but(role.name), role])
        await self._records.put_role(role)
        return await self._changed()

    def role(self, name: str) -> Role:
        """One role. Raises NotFoundError."""
        found = self._directory.roles.get(name)
        if found is None:
            raise NotFoundError(f"there is no role {name[:80]}: danube-admin security roles list")
        return found

    def roles(self, _: None = None) -> Sequence[Role]:
        """All roles, by name."""
        return sorted(self._directory.roles.values(), key=lambda role: role.name)

    def gainers(self, role: Role) -> list[str]:
        """Names of the principals that get more by this change of a role."""
        before = self._directory.roles.get(role.name)
        if before is not None and set(role.permissions) <= set(before.permissions):
            return []
        return [each.principal_name for each in self._directory.bindings if role.name in each.role_names]

    def has_other_approver(self, name: str) -> bool:
        """Tell whether anybody but this name may approve: the first administrator has nobody to ask."""
        return bool(self._directory.rules.approvers() - {name})

    def deletable_role(self, name: str) -> Role:
        """A role that may go. Raises NotFoundError, PreconditionFailedError for a built-in one or the last of use."""
        _check_may_change()
        _check_not_built_in(name)
        self._check_administered(roles=self._roles_but(name))
        return self.role(name)

    async def delete_role(self, name: str, *, extra_writes: ExtraWrites | None = None) -> bool:
        """Remove a role. Raises as `deletable_role`."""
        await self._records.delete_role(self.deletable_role(name).name, extra_writes)
        return await self._changed()

    async def create_binding(self, binding: Binding) -> bool:
        """Keep a binding, in place of one of its id within its scope. Raises InvalidRequestError, NotFoundError."""
        _check_may_change()
        binding = check_binding(binding)
        if binding.principal_type is PrincipalKind.BROKER:
            raise InvalidRequestError("brokers need no binding: they act as the cluster itself")
        for name in binding.role_names:
            self.role(name)
        others = [other for other in self._directory.bindings if not _is_same(other, binding)]
        self._check_administered(bindings=[*others, binding])
        await self._records.put_binding(binding)
        return await self._changed()

    def binding(self, key: BindingKey) -> Binding:
        """One binding. Raises NotFoundError."""
        for binding in self.bindings(BindingsOf(scope=key.scope, resource_name=key.resource_name)):
            if binding.id == key.binding_id:
                return binding
        raise NotFoundError(f"there is no binding {key.binding_id[:80]} on {key.resource_name or 'the cluster'}")

    def bindings(self, wanted: BindingsOf) -> Sequence[Binding]:
        """The bindings of one scope and resource."""
        resource = wanted.resource_name
        if wanted.scope is BindingScope.NAMESPACE:
            resource = resource.strip("/")
        return [
            binding
            for binding in self._directory.bindings
            if (binding.scope, binding.resource_name) == (wanted.scope, resource)
        ]

    def all_bindings(self, _: None = None) -> Sequence[Binding]:
        """The bindings of all scopes."""
        return self._directory.bindings

    def deletable_binding(self, key: BindingKey) -> Binding:
        """A binding that may go. Raises NotFoundError, and PreconditionFailedError for the last administrator's."""
        _check_may_change()
        binding = self.binding(key)
        self._check_administered(bindings=[other for other in self._directory.bindings if other != binding])
        return binding

    async def delete_binding(self, key: BindingKey, *, extra_writes: ExtraWrites | None = None) -> bool:
        """Remove a binding. Raises as `deletable_binding`."""
        await self._records.delete_binding(self.deletable_binding(key), extra_writes)
        return await self._changed()

    def explain(self, wanted: ExplainAccess) -> AccessExplained:
        """Decide as the gate would. Raises InvalidRequestError where nobody is named and nobody is proven."""
        principal = self._explained(wanted)
        effect = Effect.READ if wanted.permission is Permission.VIEW else Effect.WRITE
        decision = self._directory.rules.decide(principal, wanted.permission, effect, _target(wanted.resource))
        binding = decision.binding or decision.nearest
        return AccessExplained(
            allowed=decision.allowed, reason=decision.reason, binding_id=binding.id if binding else ""
        )

    def revocation_of(self, wanted: RevokeTokens) -> Revocation:
        """The revocation that would be kept. Raises InvalidRequestError."""
        _check_may_change()
        if bool(wanted.token_id) is bool(wanted.subject):
            raise InvalidRequestError("name one token by its id, or a subject: either of them")
        return Revocation(
            id=f"rev-{self._rng.new_id() % 2**48:012x}",
            token_id=wanted.token_id,
            subject=wanted.subject,
            issued_before_ms=wanted.issued_before_ms,
            reason=wanted.reason,
            revoked_ms=self._clock.now_ms(),
        )

    async def revoke(self, wanted: RevokeTokens, *, extra_writes: ExtraWrites | None = None) -> Revocation:
        """Void tokens; their streams are cut, here at once and on the other brokers within moments."""
        revocation = self.revocation_of(wanted)
        await self._records.put_revocation(revocation, extra_writes)
        await self._changed()
        return revocation

    def revocations(self, _: None = None) -> Sequence[Revocation]:
        """The newest first."""
        return self._directory.all_revocations

    async def create_api_key(self, wanted: CreateApiKey) -> ApiKeyCreated:
        """Make a key. It is answered once, and kept as a digest."""
        _check_may_change()
        if wanted.principal_type is PrincipalKind.BROKER:
            raise InvalidRequestError("a broker has no API key: it proves itself by its certificate")
        key_id, key, digest = new_key(self._rng.new_id(), secrets.token_bytes(32))
        record = ApiKey(
            id=key_id,
            principal_type=wanted.principal_type,
            principal_name=wanted.principal_name,
            digest=digest,
            scope=wanted.scope,
            created_ms=self._clock.now_ms(),
            expires_ms=wanted.expires_ms,
        )
        await self._records.put_api_key(record)
        await self._changed()
        return ApiKeyCreated(id=key_id, key=key)

    def api_keys(self, _: None = None) -> Sequence[ApiKeyInfo]:
        """API keys, the newest first, without anything secret."""
        found = sorted(self._directory.api_keys.values(), key=lambda key: -key.created_ms)
        return [
            ApiKeyInfo(
                id=key.id,
                principal_type=key.principal_type,
                principal_name=key.principal_name,
                scope=key.scope,
                created_ms=key.created_ms,
                expires_ms=key.expires_ms,
            )
            for key in found
        ]

    def deletable_api_key(self, key_id: str) -> ApiKeyInfo:
        """A key that may go. Raises NotFoundError."""
        _check_may_change()
        for key in self.api_keys():
            if key.id == key_id:
                return key
        raise NotFoundError(f"there is no API key {key_id[:80]}: danube-admin security keys list")

    async def delete_api_key(self, key_id: str, *, extra_writes: ExtraWrites | None = None) -> None:
        """Remove a key: it is exchanged for no further token. Raises NotFoundError."""
        _check_may_change()
        await self._records.delete_api_key(key_id, extra_writes)
        await self._changed()

    def exchange(self, api_key: str) -> str:
        """A token for an API key, valid for API_KEY_TOKEN_S. Raises UnauthenticatedError."""
        if self._secret is None:
            raise UnauthenticatedError("this broker issues no tokens: it has no secret (auth.jwt_secret_file)")
        now_ms = self._clock.now_ms()
        key = check_key(api_key, self._directory.api_keys.get(key_id_of(api_key)), now_ms)
        until_s = now_ms / 1_000 + API_KEY_TOKEN_S
        claims = TokenClaims(
            principal=PrincipalName(key.principal_type, key.principal_name),
            expires_s=min(until_s, key.expires_ms / 1_000) if key.expires_ms else until_s,
            issuer=self._issuer,
            issued_s=now_ms / 1_000,
            token_id=f"{key.id}-{self._rng.new_id():x}",
            scope=key.scope,
        )
        return issue(claims, self._secret)

    def _explained(self, wanted: ExplainAccess) -> Principal:
        if wanted.principal_name:
            kind = PrincipalKind.USER if wanted.principal_type == PrincipalKind.USER else PrincipalKind.SERVICE_ACCOUNT
            return Principal(id=PrincipalName(kind, wanted.principal_name), scope=TokenScope.ADMIN)
        principal = current_principal()
        if principal is None:
            raise InvalidRequestError("name a principal: nobody is authenticated while auth.mode is none")
        return principal

    def _roles_but(self, name: str) -> list[Role]:
        return [role for role in self._directory.roles.values() if role.name != name and not role.system]

    def _check_administered(
        self, *, roles: Sequence[Role] | None = None, bindings: Sequence[Binding] | None = None
    ) -> None:
        """Raise PreconditionFailedError for a change that leaves nobody who may give roles."""
        before = self._directory.rules
        own = [role for role in before.roles.values() if not role.system]
        after = Rules.of(own if roles is None else roles, self._directory.bindings if bindings is None else bindings)
        if before.administrators() and not after.administrators() and not before.super_admins:
            raise PreconditionFailedError(
                "that would leave nobody who may give roles: bind the role admin to somebody else first"
            )

    async def _changed(self) -> bool:
        await self._directory.refresh()
        return True


def _check_may_change() -> None:
    """Raise NotPermittedError for a token of a smaller scope, which could give itself a larger one."""
    principal = current_principal()
    if principal is not None and principal.scope is not TokenScope.ADMIN:
        raise NotPermittedError(f"a token of scope {principal.scope} changes no roles, bindings, keys or revocations")


def _check_not_built_in(name: str) -> None:
    if name in _BUILT_IN:
        raise PreconditionFailedError(f"the role {name} is built in: give yours another name")


def _is_same(one: Binding, other: Binding) -> bool:
    return (one.scope, one.resource_name, one.id) == (other.scope, other.resource_name, other.id)


def _target(resource: str) -> Target:
    if not resource:
        return CLUSTER
    return topic_target(resource) if resource.strip("/").count("/") else Target(resource.strip("/"))
