"""security roles.* and security bindings.*"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints

from danube.admin.access import AccessLevel
from danube.admin.operations.fields import PageParams, PageResult, Params, Result, spelled
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.admin.operations.plan_views import PlannedResult
from danube.model.calls.security import BindingKey, BindingsOf
from danube.model.limits.security import ROLE_PERMISSIONS_MAX, SECURITY_NAME_BYTES_MAX
from danube.model.plans.plan import Effect
from danube.model.security.grants import Binding, BindingScope, Permission, Role, check_binding
from danube.model.security.principal import PrincipalKind

TOOLSET = "security"


def _split(words: Any) -> Any:  # noqa: ANN401 - whatever was given; the type refuses what is no list of texts
    """Words of which each may be several, with commas between, as the original's command line has them."""
    if not isinstance(words, list):
        return words
    flat = (part.strip() for word in words if isinstance(word, str) for part in word.split(","))
    return [part for part in flat if part] if all(isinstance(word, str) for word in words) else words


NameText = Annotated[str, StringConstraints(min_length=1, max_length=SECURITY_NAME_BYTES_MAX)]
ScopeWord = Annotated[BindingScope, spelled({})]
KindWord = Annotated[PrincipalKind, spelled({"serviceaccount": "service_account"})]


class RoleParams(Params):
    """One role."""

    name: NameText = Field(description="The role's name.")


class CreateRoleParams(RoleParams):
    """A role and what it grants."""

    permissions: Annotated[list[Permission], BeforeValidator(_split)] = Field(
        min_length=1,
        max_length=ROLE_PERMISSIONS_MAX,
        description="What it grants; several with commas between them, or repeated.",
    )


class RoleView(Result):
    """A role."""

    name: str = Field(description="Its name.")
    permissions: list[str] = Field(description="What it grants.")
    system: bool = Field(description="Whether it is built in, and cannot be changed.")


class RoleList(PageResult):
    """Roles."""

    roles: list[RoleView] = Field(description="Sorted by name.")


class RoleDone(Result):
    """A role that was created."""

    name: str = Field(description="Its name.")


class ScopeParams(Params):
    """One extent of bindings."""

    scope: ScopeWord = Field(description="Where it holds: in the cluster, a namespace or a topic.")
    resource: str = Field(
        default="",
        max_length=SECURITY_NAME_BYTES_MAX,
        description="The namespace without a slash, or the topic such as /default/orders; none for the cluster.",
    )


class BindingParams(ScopeParams):
    """One binding."""

    id: NameText = Field(description="The binding's id, within its scope and resource.")


class CreateBindingParams(BindingParams):
    """A binding and what it grants to whom."""

    principal_type: KindWord = Field(description="The kind of principal.")
    principal_name: NameText = Field(description="The name in its token or client certificate.")
    roles: Annotated[list[NameText], BeforeValidator(_split)] = Field(
        min_length=1,
        max_length=ROLE_PERMISSIONS_MAX,
        description="The roles that it has there; several with commas between them, or repeated.",
    )


class ListBindingsParams(ScopeParams, PageParams):
    """The bindings of one extent."""


class BindingView(Result):
    """A binding."""

    id: str = Field(description="Its id.")
    principal_type: str = Field(description="The kind of its principal.")
    principal_name: str = Field(description="The name of its principal.")
    role_names: list[str] = Field(description="The roles that the principal has.")
    scope: str = Field(description="cluster, namespace or topic.")
    resource_name: str = Field(description="Where it holds; empty for the cluster.")


class BindingList(PageResult):
    """Bindings."""

    bindings: list[BindingView] = Field(description="In the order of their extent and id.")


class BindingDone(Result):
    """A binding that was created."""

    id: str = Field(description="Its id.")


async def _create_role(call: Call, params: CreateRoleParams) -> RoleDone:
    await call.gateway.create_role(Role(name=params.name, permissions=tuple(dict.fromkeys(params.permissions))))
    return RoleDone(name=params.name)


async def _role(call: Call, params: RoleParams) -> RoleView:
    return RoleView.of(await call.gateway.role(params.name))


async def _roles(call: Call, _: PageParams) -> RoleList:
    return RoleList(roles=[RoleView.of(role) for role in await call.gateway.roles()])


async def _create_binding(call: Call, params: CreateBindingParams) -> BindingDone:
    wanted = Binding(
        id=params.id,
        principal_type=params.principal_type,
        principal_name=params.principal_name,
        role_names=tuple(dict.fromkeys(params.roles)),
        scope=params.scope,
        resource_name=params.resource,
    )
    await call.gateway.create_binding(check_binding(wanted))
    return BindingDone(id=params.id)


async def _binding(call: Call, params: BindingParams) -> BindingView:
    return BindingView.of(await call.gateway.binding(_key(params)))


async def _bindings(call: Call, params: ListBindingsParams) -> BindingList:
    wanted = BindingsOf(scope=params.scope, resource_name=_resource(params))
    return _listed(await call.gateway.bindings(wanted))


async def _all_bindings(call: Call, _: PageParams) -> BindingList:
    return _listed(await call.gateway.all_bindings())


def _listed(bindings: Sequence[Binding]) -> BindingList:
    return BindingList(bindings=[BindingView.of(one) for one in bindings])


_BINDINGS = Listing(rows="bindings", name="id", by=lambda row: (row.scope, row.resource_name, row.id))
"""An id is of one extent: others may have it, too."""


def _key(params: BindingParams) -> BindingKey:
    return BindingKey(scope=params.scope, resource_name=_resource(params), binding_id=params.id)


def _resource(params: ScopeParams) -> str:
    return params.resource.strip("/") if params.scope is BindingScope.NAMESPACE else params.resource


CREATE_ROLE = Operation(
    name="create_role",
    words=("security", "roles", "create"),
    summary="Create a role, or change what one grants.",
    description="It grants nothing before a binding gives it to somebody (create_binding).",
    effect=Effect.WRITE,
    access=AccessLevel.DESTROY,
    loses=lambda _: True,
    params=CreateRoleParams,
    result=RoleDone,
    run=_create_role,
    done="Role created: {name}",
    positional=("name",),
    toolset=TOOLSET,
    is_idempotent=True,
    examples=(Example("A role that publishes", {"name": "publisher", "permissions": ["Lookup", "Produce"]}),),
)
GET_ROLE = Operation(
    name="get_role",
    words=("security", "roles", "get"),
    summary="Show what a role grants.",
    effect=Effect.READ,
    params=RoleParams,
    result=RoleView,
    run=_role,
    positional=("name",),
    toolset=TOOLSET,
    examples=(Example("The built-in role of those who only look", {"name": "observer"}),),
)
LIST_ROLES = Operation(
    name="list_roles",
    words=("security", "roles", "list"),
    summary="List the roles.",
    description="The built-in ones among them.",
    effect=Effect.READ,
    params=PageParams,
    result=RoleList,
    run=_roles,
    pages=Listing(rows="roles", name="name"),
    toolset=TOOLSET,
    examples=(Example("Every role"),),
)
DELETE_ROLE = Operation(
    name="delete_role",
    words=("security", "roles", "delete"),
    summary="Delete a role.",
    description="Bindings that name it grant nothing by it from then on. The last role that lets anybody give roles"
    " is not deleted.",
    effect=Effect.DESTROY,
    params=RoleParams,
    result=PlannedResult,
    positional=("name",),
    toolset=TOOLSET,
    examples=(Example("The role `auditor`", {"name": "auditor"}),),
)
CREATE_BINDING = Operation(
    name="create_binding",
    words=("security", "bindings", "create"),
    summary="Give a principal roles within the cluster, a namespace or a topic.",
    description="A binding of the same id there is replaced.",
    effect=Effect.WRITE,
    access=AccessLevel.DESTROY,
    loses=lambda _: True,
    params=CreateBindingParams,
    result=BindingDone,
    run=_create_binding,
    done="Binding created: {id}",
    positional=("id",),
    toolset=TOOLSET,
    is_idempotent=True,
    examples=(
        Example(
            "The service `shop` publishes in the namespace `default`",
            {
                "id": "shop-publishes",
                "principal_type": "service_account",
                "principal_name": "shop",
                "roles": ["producer"],
                "scope": "namespace",
                "resource": "default",
            },
        ),
    ),
)
GET_BINDING = Operation(
    name="get_binding",
    words=("security", "bindings", "get"),
    summary="Show a binding.",
    effect=Effect.READ,
    params=BindingParams,
    result=BindingView,
    run=_binding,
    positional=("id",),
    toolset=TOOLSET,
    examples=(Example("What auditors may do", {"id": "auditors", "scope": "cluster"}),),
)
LIST_BINDINGS = Operation(
    name="list_bindings",
    words=("security", "bindings", "list"),
    summary="List the bindings of the cluster, a namespace or a topic.",
    description="Those of this one extent alone; list_all_bindings has all.",
    effect=Effect.READ,
    params=ListBindingsParams,
    result=BindingList,
    run=_bindings,
    pages=_BINDINGS,
    toolset=TOOLSET,
    examples=(Example("Those that hold everywhere", {"scope": "cluster"}),),
)
LIST_ALL_BINDINGS = Operation(
    name="list_all_bindings",
    words=("security", "bindings", "list-all"),
    summary="List all bindings.",
    effect=Effect.READ,
    params=PageParams,
    result=BindingList,
    run=_all_bindings,
    pages=_BINDINGS,
    toolset=TOOLSET,
    examples=(Example("All of them"),),
)
DELETE_BINDING = Operation(
    name="delete_binding",
    words=("security", "bindings", "delete"),
    summary="Take a binding away.",
    description="Streams that only it allowed are cut. The binding of the last who may give roles is not deleted.",
    effect=Effect.DESTROY,
    params=BindingParams,
    result=PlannedResult,
    positional=("id",),
    toolset=TOOLSET,
    examples=(Example("Auditors see nothing any more", {"id": "auditors", "scope": "cluster"}),),
)
OPERATIONS = (
    CREATE_ROLE,
    GET_ROLE,
    LIST_ROLES,
    DELETE_ROLE,
    CREATE_BINDING,
    GET_BINDING,
    LIST_BINDINGS,
    LIST_ALL_BINDINGS,
    DELETE_BINDING,
)
