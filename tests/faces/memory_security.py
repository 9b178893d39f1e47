"""Roles, bindings, revocations and API keys in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from danube.model.calls.security import (
    AccessExplained,
    ApiKeyCreated,
    ApiKeyInfo,
    BindingKey,
    BindingsOf,
    CreateApiKey,
    ExplainAccess,
)
from danube.model.errors import InvalidRequestError, NotFoundError, PreconditionFailedError, UnauthenticatedError
from danube.model.plans.plan import Arguments, Effect
from danube.model.security.credentials import Revocation
from danube.model.security.grants import SYSTEM_ROLES, Binding, BindingScope, Permission, Role
from danube.model.security.principal import Principal, PrincipalKind, PrincipalName, TokenScope
from danube.runtime.clock import Clock
from danube.security.decision import CLUSTER, Rules, topic_target

K = TypeVar("K")
V = TypeVar("V")

OURS_ALONE = {"api_keys", "create_api_key", "explain_access", "revocations"}
"""Calls that the original does not answer."""

SEEDED_ROLE = Role(name="auditor", permissions=(Permission.VIEW,))
SEEDED_BINDING = Binding(
    id="auditors",
    principal_type=PrincipalKind.USER,
    principal_name="anna",
    role_names=("observer",),
    scope=BindingScope.CLUSTER,
)
SEEDED_KEY = "key-seeded"
"""Id of the seeded key in memory; a broker gives it one of its own."""
SEEDED_KEY_OF = CreateApiKey(
    principal_type=PrincipalKind.SERVICE_ACCOUNT, principal_name="shop", scope=TokenScope.OPERATOR
)


@dataclass(slots=True)
class MemorySecurity:
    """Records of security."""

    roles: dict[str, Role] = field(default_factory=lambda: {role.name: role for role in SYSTEM_ROLES})
    bindings: dict[BindingKey, Binding] = field(default_factory=dict)
    revocations: list[Revocation] = field(default_factory=list)
    keys: dict[str, ApiKeyInfo] = field(default_factory=dict)

    def check_deletable(self, operation: str, arguments: Arguments) -> None:
        """Raise where a planned operation cannot be done."""
        match operation:
            case "delete_role":
                _check_own(_found(self.roles, arguments["name"], "role"))
            case "delete_binding":
                _found(self.bindings, _key_of(arguments), "binding")
            case "delete_api_key":
                _found(self.keys, arguments["id"], "API key")
            case "revoke_tokens":
                if bool(arguments["token_id"]) is bool(arguments["subject"]):
                    raise InvalidRequestError("name one token by its id, or a subject: either of them")

    def carry_out(self, operation: str, arguments: Arguments, now_ms: int) -> bool:
        """Do what was planned; False for what is nothing of security."""
        match operation:
            case "delete_role":
                del self.roles[arguments["name"]]
            case "delete_binding":
                del self.bindings[_key_of(arguments)]
            case "delete_api_key":
                del self.keys[arguments["id"]]
            case "revoke_tokens":
                revocation_id = f"rev-{len(self.revocations)}"
                self.revocations.append(Revocation(id=revocation_id, revoked_ms=now_ms, **arguments))
            case _:
                return False
        return True

    def seed(self) -> None:
        """One of each that can be taken away."""
        self.roles[SEEDED_ROLE.name] = SEEDED_ROLE
        self.bindings[_key(SEEDED_BINDING)] = SEEDED_BINDING
        self.keys[SEEDED_KEY] = _info(SEEDED_KEY, SEEDED_KEY_OF, 0)


class SecurityCalls:
    """The gateway's calls about security."""

    security: MemorySecurity
    clock: Clock

    async def create_role(self, role: Role) -> None:
        _check_own(self.security.roles.get(role.name))
        self.security.roles[role.name] = role

    async def role(self, name: str) -> Role:
        if name not in self.security.roles:
            raise NotFoundError(f"there is no role {name[:80]}")
        return self.security.roles[name]

    async def roles(self) -> Sequence[Role]:
        return list(self.security.roles.values())

    async def create_binding(self, binding: Binding) -> None:
        for name in binding.role_names:
            await self.role(name)
        self.security.bindings[_key(binding)] = binding

    async def binding(self, key: BindingKey) -> Binding:
        if key not in self.security.bindings:
            raise NotFoundError(f"there is no binding {key.binding_id[:80]}")
        return self.security.bindings[key]

    async def bindings(self, wanted: BindingsOf) -> Sequence[Binding]:
        of = (wanted.scope, wanted.resource_name)
        return [one for one in self.security.bindings.values() if (one.scope, one.resource_name) == of]

    async def all_bindings(self) -> Sequence[Binding]:
        return list(self.security.bindings.values())

    async def explain_access(self, wanted: ExplainAccess) -> AccessExplained:
        if not wanted.principal_name:
            raise InvalidRequestError("name a principal: nobody is authenticated while auth.mode is none")
        principal = Principal(id=PrincipalName(PrincipalKind(wanted.principal_type), wanted.principal_name))
        rules = Rules.of(self.security.roles.values(), self.security.bindings.values())
        target = topic_target(wanted.resource) if wanted.resource else CLUSTER
        decision = rules.decide(principal, wanted.permission, Effect.WRITE, target)
        found = decision.binding or decision.nearest
        return AccessExplained(allowed=decision.allowed, reason=decision.reason, binding_id=found.id if found else "")

    async def exchange_api_key(self, key: str) -> str:
        raise UnauthenticatedError(f"that is no API key of this cluster ({len(key)} characters)")

    async def revocations(self) -> Sequence[Revocation]:
        return self.security.revocations

    async def create_api_key(self, wanted: CreateApiKey) -> ApiKeyCreated:
        key_id = f"key-{len(self.security.keys)}"
        self.security.keys[key_id] = _info(key_id, wanted, self.clock.now_ms())
        return ApiKeyCreated(id=key_id, key=f"dk_{key_id}_shown-once")

    async def api_keys(self) -> Sequence[ApiKeyInfo]:
        return list(self.security.keys.values())


def _check_own(role: Role | None) -> None:
    if role is not None and role.system:
        raise PreconditionFailedError(f"the role {role.name} is built in: give yours another name")


def _found(records: Mapping[K, V], key: K, kind: str) -> V:
    if key not in records:
        raise NotFoundError(f"there is no {kind} {str(key)[:80]}")
    return records[key]


def _key_of(arguments: Arguments) -> BindingKey:
    scope, resource = BindingScope(arguments["scope"]), arguments["resource"]
    return BindingKey(scope=scope, resource_name=resource, binding_id=arguments["id"])


def _key(binding: Binding) -> BindingKey:
    return BindingKey(scope=binding.scope, resource_name=binding.resource_name, binding_id=binding.id)


def _info(key_id: str, wanted: CreateApiKey, now_ms: int) -> ApiKeyInfo:
    return ApiKeyInfo(
        id=key_id,
        principal_type=wanted.principal_type,
        principal_name=wanted.principal_name,
        scope=wanted.scope,
        created_ms=now_ms,
        expires_ms=wanted.expires_ms,
    )
