"""Messages of roles, bindings, tokens and API keys: the original's calls and ours."""

from collections.abc import Sequence
from functools import partial

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
from danube.model.errors import InvalidRequestError
from danube.model.limits.security import SECURITY_NAME_BYTES_MAX
from danube.model.security.credentials import Revocation
from danube.model.security.grants import Binding, Role
from danube.wire.codec import Codec, Rule, Unread, listing, record, single
from danube.wire.gen import DanubeAdmin_pb2 as pb
from danube.wire.gen import DanubeAuth_pb2 as auth
from danube.wire.gen import DanubeSecurity_pb2 as ours


def _check_name(kind: str, text: str) -> None:
    if not text or len(text.encode()) > SECURITY_NAME_BYTES_MAX:
        raise InvalidRequestError(f"a {kind} has 1 to {SECURITY_NAME_BYTES_MAX} bytes")


def _named(kind: str) -> Rule:
    return Rule(check=partial(_check_name, kind))


def _check_short(text: str) -> None:
    if len(text.encode()) > SECURITY_NAME_BYTES_MAX:
        raise InvalidRequestError(f"{text[:40]!r}... is longer than {SECURITY_NAME_BYTES_MAX} bytes")


_SHORT = Rule(check=_check_short)

ROLE = record(Role, pb.RoleDefinition, name=_named("role's name"))
BINDING = record(
    Binding,
    pb.BindingDefinition,
    id=_named("binding's id"),
    principal_name=_named("principal's name"),
    resource_name=_SHORT,
)
CREATE_ROLE: Codec[Role] = single(pb.CreateRoleRequest, "role", Role, Rule(missing="the request has no role"))
ROLE_NAME: Codec[str] = single(pb.GetRoleRequest, "name", str, _named("role's name"))
ROLE_FOUND: Codec[Role] = single(pb.GetRoleResponse, "role", Role)
ROLES: Codec[Sequence[Role]] = listing(pb.ListRolesResponse, "roles", Role)
DELETE_ROLE: Codec[str] = single(pb.DeleteRoleRequest, "name", str, _named("role's name"))
CREATE_BINDING: Codec[Binding] = single(
    pb.CreateBindingRequest, "binding", Binding, Rule(missing="the request has no binding")
)
GET_BINDING = record(BindingKey, pb.GetBindingRequest)
BINDING_FOUND: Codec[Binding] = single(pb.GetBindingResponse, "binding", Binding)
LIST_BINDINGS = record(BindingsOf, pb.ListBindingsRequest)
BINDINGS: Codec[Sequence[Binding]] = listing(pb.ListBindingsResponse, "bindings", Binding)
DELETE_BINDING = record(BindingKey, pb.DeleteBindingRequest)
ROLE_CREATED: Codec[bool] = single(pb.CreateRoleResponse, "success", bool)
ROLE_DELETED: Codec[bool] = single(pb.DeleteRoleResponse, "success", bool)
BINDING_CREATED: Codec[bool] = single(pb.CreateBindingResponse, "success", bool)
BINDING_DELETED: Codec[bool] = single(pb.DeleteBindingResponse, "success", bool)

EXPLAIN = record(ExplainAccess, ours.ExplainAccessRequest, principal_name=_SHORT, resource=_SHORT)
EXPLAINED = record(AccessExplained, ours.ExplainAccessResponse)
REVOKE = record(RevokeTokens, ours.RevokeTokensRequest, token_id=_SHORT, subject=_SHORT, reason=_SHORT)
REVOCATION = record(Revocation, ours.TokenRevocation)
LIST_REVOCATIONS = Unread(ours.ListRevocationsRequest)
REVOCATIONS: Codec[Sequence[Revocation]] = listing(ours.ListRevocationsResponse, "revocations", Revocation)
CREATE_API_KEY = record(CreateApiKey, ours.CreateApiKeyRequest, principal_name=_named("principal's name"))
API_KEY_CREATED = record(ApiKeyCreated, ours.CreateApiKeyResponse)
_API_KEY = record(ApiKeyInfo, ours.ApiKeyInfo)
LIST_API_KEYS = Unread(ours.ListApiKeysRequest)
API_KEYS: Codec[Sequence[ApiKeyInfo]] = listing(ours.ListApiKeysResponse, "keys", ApiKeyInfo)
DELETE_API_KEY: Codec[str] = single(ours.DeleteApiKeyRequest, "id", str, _named("key's id"))
API_KEY_DELETED: Codec[None] = Unread(ours.DeleteApiKeyResponse)

AUTHENTICATE: Codec[str] = single(auth.AuthRequest, "api_key", str, _SHORT)
TOKEN: Codec[str] = single(auth.AuthResponse, "token", str)
