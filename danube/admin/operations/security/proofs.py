"""security tokens revoke, security revocations list, security keys.*, security can-i, security explain"""

from typing import Annotated

from pydantic import Field, StringConstraints

from danube.admin.access import AccessLevel
from danube.admin.operations.fields import SHOWN_ONCE, VOLATILE, PageParams, PageResult, Params, Result, spelled
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.admin.operations.plan_views import PlannedResult
from danube.admin.operations.security.grants import TOOLSET, KindWord, NameText
from danube.model.calls.security import CreateApiKey, ExplainAccess
from danube.model.limits.security import API_KEY_DAYS_MAX, SECURITY_NAME_BYTES_MAX
from danube.model.plans.plan import Effect
from danube.model.security.grants import Permission
from danube.model.security.principal import PrincipalKind, TokenScope

_DAY_MS = 86_400_000
ShortText = Annotated[str, StringConstraints(max_length=SECURITY_NAME_BYTES_MAX)]
TokenScopeWord = Annotated[TokenScope, spelled({})]


class RevokeParams(Params):
    """Tokens that count no more."""

    token_id: ShortText = Field(default="", description="One token by its id (claim jti); or name a subject.")
    subject: ShortText = Field(default="", description="All tokens and certificates of this principal.")
    issued_before_ms: int = Field(
        default=0, ge=0, le=1 << 53, description="Of the subject's, those issued before this moment; 0 for all."
    )
    reason: ShortText = Field(default="", description="A word on why, shown to whoever is refused.")


class RevocationView(Result):
    """Tokens that count no more."""

    id: Annotated[str, VOLATILE] = Field(description="Id of the revocation.")
    token_id: str = Field(description="The one token; empty where a subject is named.")
    subject: str = Field(description="The principal whose tokens they are; empty where one token is named.")
    issued_before_ms: int = Field(description="Those issued before this moment; 0 for all.")
    reason: str = Field(description="The word on why.")
    revoked_ms: Annotated[int, VOLATILE] = Field(description="Milliseconds since the epoch.")


class RevocationList(PageResult):
    """Revocations."""

    revocations: list[RevocationView] = Field(description="In the order of their ids.")


class CreateKeyParams(Params):
    """A key for an application."""

    principal_name: NameText = Field(description="The principal that its bearer is.")
    principal_type: KindWord = Field(default=PrincipalKind.SERVICE_ACCOUNT, description="The kind of principal.")
    scope: TokenScopeWord = Field(
        default=TokenScope.ADMIN,
        description="The most that its tokens may do, whatever roles grant: observer, operator or admin.",
    )
    days: int = Field(default=0, ge=0, le=API_KEY_DAYS_MAX, description="Days until it expires; 0 for never.")


class KeyCreated(Result):
    """A key, shown this once: the cluster keeps a digest alone."""

    id: Annotated[str, VOLATILE] = Field(description="Its id.")
    key: Annotated[str, VOLATILE, SHOWN_ONCE] = Field(description="The key itself. Keep it: it is never shown again.")


class KeyParams(Params):
    """One key."""

    id: NameText = Field(description="The key's id, as in the list of keys.")


class KeyView(Result):
    """A key, without anything secret."""

    id: Annotated[str, VOLATILE] = Field(description="Its id.")
    principal_type: str = Field(description="The kind of its principal.")
    principal_name: str = Field(description="The name of its principal.")
    scope: str = Field(description="The most that its tokens may do.")
    created_ms: Annotated[int, VOLATILE] = Field(description="Milliseconds since the epoch.")
    expires_ms: int = Field(description="Milliseconds since the epoch; 0 for never.")


class KeyList(PageResult):
    """Keys."""

    keys: list[KeyView] = Field(description="In the order of their ids.")


class AccessParams(Params):
    """A question about rights."""

    permission: Permission = Field(description="The permission asked about.")
    resource: ShortText = Field(
        default="", description="A topic such as /default/orders, or a namespace; none for the cluster."
    )
    principal_name: ShortText = Field(default="", description="The principal asked about; you without it.")
    principal_type: KindWord = Field(default=PrincipalKind.SERVICE_ACCOUNT, description="Its kind.")


class ExplainParams(AccessParams):
    """A question about the rights of somebody."""

    principal_name: NameText = Field(description="The principal asked about.")


class AccessView(Result):
    """The answer, with its reason."""

    allowed: bool = Field(description="Whether it may.")
    reason: str = Field(description="The binding that grants it, or why none does and which is nearest.")
    binding_id: str = Field(description="Of the binding that grants it or is nearest; empty where there is none.")


async def _revocations(call: Call, _: PageParams) -> RevocationList:
    return RevocationList(revocations=[RevocationView.of(one) for one in await call.gateway.revocations()])


async def _create_key(call: Call, params: CreateKeyParams) -> KeyCreated:
    wanted = CreateApiKey(
        principal_type=params.principal_type,
        principal_name=params.principal_name,
        scope=params.scope,
        expires_ms=call.clock.now_ms() + params.days * _DAY_MS if params.days else 0,
    )
    return KeyCreated.of(await call.gateway.create_api_key(wanted))


async def _keys(call: Call, _: PageParams) -> KeyList:
    return KeyList(keys=[KeyView.of(one) for one in await call.gateway.api_keys()])


async def _explain(call: Call, params: AccessParams) -> AccessView:
    wanted = ExplainAccess(
        principal_type=params.principal_type if params.principal_name else "",
        principal_name=params.principal_name,
        permission=params.permission,
        resource=params.resource,
    )
    return AccessView.of(await call.gateway.explain_access(wanted))


REVOKE_TOKENS = Operation(
    name="revoke_tokens",
    words=("security", "tokens", "revoke"),
    summary="Void tokens before they expire.",
    description="One by its id, or those of a subject. The plan says how many of them the broker knows. Their streams"
    " are cut within moments, on every broker.",
    effect=Effect.DESTROY,
    params=RevokeParams,
    result=PlannedResult,
    toolset=TOOLSET,
    examples=(Example("All tokens of a laptop that was lost", {"subject": "laptop", "reason": "lost"}),),
)
LIST_REVOCATIONS = Operation(
    name="list_revocations",
    words=("security", "revocations", "list"),
    summary="List the revocations of tokens.",
    effect=Effect.READ,
    params=PageParams,
    result=RevocationList,
    run=_revocations,
    pages=Listing(rows="revocations", name="id"),
    toolset=TOOLSET,
    examples=(Example("Every revocation"),),
)
CREATE_API_KEY = Operation(
    name="create_api_key",
    words=("security", "keys", "create"),
    summary="Create an API key, and show it this once.",
    description="A client exchanges it for tokens (AuthService/Authenticate). It can do what the principal's bindings"
    " grant.",
    effect=Effect.WRITE,
    access=AccessLevel.DESTROY,
    loses=lambda _: True,
    params=CreateKeyParams,
    result=KeyCreated,
    run=_create_key,
    positional=("principal_name",),
    toolset=TOOLSET,
    is_tool=False,
    examples=(Example("A key of the service `shop`", {"principal_name": "shop"}),),
)
LIST_API_KEYS = Operation(
    name="list_api_keys",
    words=("security", "keys", "list"),
    summary="List the API keys, without anything secret.",
    effect=Effect.READ,
    params=PageParams,
    result=KeyList,
    run=_keys,
    pages=Listing(rows="keys", name="id"),
    toolset=TOOLSET,
    examples=(Example("Every key"),),
)
DELETE_API_KEY = Operation(
    name="delete_api_key",
    words=("security", "keys", "delete"),
    summary="Delete an API key.",
    description="It is exchanged for no further token; tokens that it was exchanged for count until they expire, an"
    " hour at most, unless revoke_tokens voids them.",
    effect=Effect.DESTROY,
    params=KeyParams,
    result=PlannedResult,
    positional=("id",),
    toolset=TOOLSET,
    examples=(Example("The key of a service that is gone", {"id": "key-seeded"}),),
)
CAN_I = Operation(
    name="can_i",
    words=("security", "can-i"),
    summary="Tell whether you, or somebody else, may do something.",
    description="The answer names the binding that decides. Without security (auth.mode none) name a principal.",
    effect=Effect.READ,
    params=AccessParams,
    result=AccessView,
    run=_explain,
    positional=("permission", "resource"),
    toolset=TOOLSET,
    examples=(
        Example(
            "May the service `shop` publish to a topic?",
            {"permission": "Produce", "resource": "/default/orders", "principal_name": "shop"},
        ),
    ),
)
EXPLAIN_ACCESS = Operation(
    name="explain_access",
    words=("security", "explain"),
    summary="Explain why a principal may do something, or may not.",
    effect=Effect.READ,
    params=ExplainParams,
    result=AccessView,
    run=_explain,
    positional=("principal_name", "permission", "resource"),
    toolset=TOOLSET,
    examples=(
        Example(
            "An auditor wants to publish",
            {
                "principal_name": "anna",
                "principal_type": "user",
                "permission": "Produce",
                "resource": "/default/orders",
            },
        ),
    ),
)
OPERATIONS = (
    REVOKE_TOKENS,
    LIST_REVOCATIONS,
    CREATE_API_KEY,
    LIST_API_KEYS,
    DELETE_API_KEY,
    CAN_I,
    EXPLAIN_ACCESS,
)
