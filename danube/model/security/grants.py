"""Roles and bindings: the records of authorization. Names of permissions and scopes are the original's."""

from dataclasses import dataclass
from enum import StrEnum

from danube.model.errors import InvalidRequestError
from danube.model.security.principal import PrincipalKind, PrincipalName


class Permission(StrEnum):
    """Right to do one kind of call."""

    LOOKUP = "Lookup"
    PRODUCE = "Produce"
    CONSUME = "Consume"
    REPLICATE = "Replicate"
    MANAGE_NAMESPACE = "ManageNamespace"
    MANAGE_TOPIC = "ManageTopic"
    MANAGE_SCHEMA = "ManageSchema"
    MANAGE_BROKER = "ManageBroker"
    MANAGE_CLUSTER = "ManageCluster"
    VIEW = "View"
    """Ours: reads of the admin port, without any change; each Manage permission includes it for its own calls."""
    APPROVE = "Approve"
    """Ours: consent to the plan of another principal."""


class BindingScope(StrEnum):
    """Extent of a binding."""

    CLUSTER = "cluster"
    NAMESPACE = "namespace"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Named set of permissions."""

    name: str
    permissions: tuple[Permission, ...]
    system: bool = False
    """Built in: it cannot be changed or deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Roles of one principal within one scope."""

    id: str
    principal_type: PrincipalKind
    principal_name: str
    role_names: tuple[str, ...]
    scope: BindingScope
    resource_name: str = ""
    """Empty for the cluster, else a namespace without a slash, or a topic such as `/default/orders`.

    A schema subject is bound in the scope of topics, as in the original.
    """

    @property
    def principal(self) -> PrincipalName:
        return PrincipalName(self.principal_type, self.principal_name)

    def __str__(self) -> str:
        where = self.resource_name or "the cluster"
        return f"{self.id} ({', '.join(self.role_names)} on {where})"


ALL = tuple(Permission)
SYSTEM_ROLES = (
    Role(name="admin", permissions=ALL, system=True),
    Role(
        name="operator",
        permissions=(
            Permission.LOOKUP,
            Permission.VIEW,
            Permission.MANAGE_TOPIC,
            Permission.MANAGE_BROKER,
            Permission.MANAGE_SCHEMA,
        ),
        system=True,
    ),
    Role(
        name="owner",
        permissions=(
            Permission.LOOKUP,
            Permission.VIEW,
            Permission.PRODUCE,
            Permission.CONSUME,
            Permission.MANAGE_NAMESPACE,
            Permission.MANAGE_TOPIC,
            Permission.MANAGE_SCHEMA,
        ),
        system=True,
    ),
    Role(name="observer", permissions=(Permission.LOOKUP, Permission.VIEW), system=True),
    Role(name="producer", permissions=(Permission.LOOKUP, Permission.PRODUCE), system=True),
    Role(name="consumer", permissions=(Permission.LOOKUP, Permission.CONSUME), system=True),
)
"""Built-in roles. A role of one of these names cannot be made."""


def check_binding(binding: Binding) -> Binding:
    """The binding, with its resource in the form that matches: `payments` for `/payments`.

    Raises InvalidRequestError.
    """
    if not binding.id or not binding.principal_name or not binding.role_names:
        raise InvalidRequestError("a binding needs an id, a principal and at least one role")
    resource = binding.resource_name
    if binding.scope is BindingScope.CLUSTER:
        if resource:
            raise InvalidRequestError(f"a binding of scope cluster has no resource: leave {resource!r} out")
        return binding
    if binding.scope is BindingScope.NAMESPACE:
        resource = resource.strip("/")
        if not resource or "/" in resource:
            raise InvalidRequestError(f"{binding.resource_name!r} is no namespace: name one, such as default")
    elif not resource or ("/" in resource and (resource.count("/") != 2 or not resource.startswith("/"))):
        raise InvalidRequestError(f"{resource!r} is no topic and no schema subject: use /namespace/topic, or a subject")
    return Binding(
        id=binding.id,
        principal_type=binding.principal_type,
        principal_name=binding.principal_name,
        role_names=binding.role_names,
        scope=binding.scope,
        resource_name=resource,
    )
