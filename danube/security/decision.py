"""Authorization rules: default deny, and a decision that names the binding that made it. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from danube.model.limits.broker import NAME_BYTES_MAX
from danube.model.limits.security import TARGETS_CACHE_MAX
from danube.model.plans.plan import Effect
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.model.security.grants import SYSTEM_ROLES, Binding, BindingScope, Permission, Role
from danube.model.security.principal import Principal, PrincipalKind, PrincipalName, TokenScope
from danube.model.topic import TopicName

_BUILT_IN = {role.name: role for role in SYSTEM_ROLES}
_MANAGES = frozenset(
    {
        Permission.MANAGE_BROKER,
        Permission.MANAGE_CLUSTER,
        Permission.MANAGE_NAMESPACE,
        Permission.MANAGE_SCHEMA,
        Permission.MANAGE_TOPIC,
    }
)


@dataclass(frozen=True, slots=True)
class Target:
    """Object of a call: the cluster, a namespace, or a topic in its namespace."""

    namespace: str = ""
    topic: str = ""
    """Such as `/default/orders`."""
    partitioned: str = ""
    """The topic that a partition of this name has; empty for a name of another form."""

    def __str__(self) -> str:
        return self.topic or (f"namespace {self.namespace}" if self.namespace else "the cluster")

    def is_within(self, binding: Binding, is_plain: Callable[[str], bool]) -> bool:
        """Tell whether a binding's scope holds this object; a plain topic with the name of a partition is none."""
        if binding.scope is BindingScope.CLUSTER:
            return True
        if binding.scope is BindingScope.NAMESPACE:
            return bool(self.namespace) and binding.resource_name == self.namespace
        if not self.topic or binding.resource_name == self.topic:
            return bool(self.topic)
        return self.partitioned == binding.resource_name and not is_plain(self.topic)


CLUSTER = Target()


@lru_cache(TARGETS_CACHE_MAX)
def topic_target(topic: str) -> Target:
    """The target of a topic such as `/default/orders`; a partition has the bindings of its topic."""
    namespace, _, local = topic.removeprefix("/").partition("/")
    base = TopicName(namespace, local).base_by_form
    return Target(namespace, topic, str(base) if base is not None else "")


def _nothing_known(_topic: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Answer to "may this principal do that", with its reason."""

    allowed: bool
    reason: str
    binding: Binding | None = None
    nearest: Binding | None = None
    """Of a refusal: a binding that grants the permission elsewhere, or another permission here."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Roles and bindings as they stand, and the names that pass every check."""

    roles: Mapping[str, Role]
    bindings: Mapping[PrincipalName, tuple[Binding, ...]]
    super_admins: frozenset[PrincipalName] = frozenset()
    is_plain: Callable[[str], bool] = _nothing_known
    """True for a topic that is no partition, though its name has the form of one."""
    is_namespace: Callable[[str], bool] = _nothing_known
    """True for a namespace that there is: schema subjects belong to namespaces by name."""

    @classmethod
    def of(
        cls,
        roles: Iterable[Role],
        bindings: Iterable[Binding],
        super_admins: Iterable[str] = (),
        is_plain: Callable[[str], bool] = _nothing_known,
        is_namespace: Callable[[str], bool] = _nothing_known,
    ) -> "Rules":
        """The rules of these records; built-in roles are always there and never replaced."""
        by_principal: dict[PrincipalName, tuple[Binding, ...]] = {}
        for binding in bindings:
            by_principal[binding.principal] = (*by_principal.get(binding.principal, ()), binding)
        named = frozenset(PrincipalName.of(each) for each in super_admins)
        by_name = {**{role.name: role for role in roles}, **_BUILT_IN}
        return cls(by_name, by_principal, named, is_plain, is_namespace)

    def decide(self, principal: Principal, permission: Permission, effect: Effect, target: Target) -> Decision:
        """Decide about a call of this permission and effect to the target."""
        if beyond := beyond_scope(principal, permission, effect):
            return Decision(allowed=False, reason=beyond)
        if principal.id.kind is PrincipalKind.BROKER:
            return Decision(allowed=True, reason="a broker of the cluster")
        if self._is_super_admin(principal):
            return Decision(allowed=True, reason="named in auth.super_admins")
        target = self._placed(target)
        wanted = _enough(permission, effect, target)
        held = self.bindings.get(principal.id, ())
        for binding in held:
            if target.is_within(binding, self.is_plain) and self.granted(binding) & wanted:
                return Decision(allowed=True, reason=f"granted by binding {binding}", binding=binding)
        nearest = self._nearest(held, wanted, target)
        hint = f"; nearest is binding {nearest}" if nearest else ""
        reason = f"no binding grants {permission} on {target} to {principal}{hint}"
        return Decision(allowed=False, reason=reason, nearest=nearest)

    def holds(self, principal: Principal, permission: Permission, effect: Effect) -> bool:
        """Tell whether any binding grants the permission, on whatever it is."""
        if self.decide(principal, permission, effect, CLUSTER).allowed:
            return True
        held = self.bindings.get(principal.id, ())
        return not beyond_scope(principal, permission, effect) and any(
            permission in self.granted(each) for each in held
        )

    def sees(self, principal: Principal, target: Target) -> bool:
        """Tell whether any binding reaches the target or something within it: names without a grant stay unseen."""
        if principal.id.kind is PrincipalKind.BROKER or self._is_super_admin(principal):
            return True
        for binding in self.bindings.get(principal.id, ()):
            if target.is_within(binding, self.is_plain) and self.granted(binding):
                return True
            if not target.topic and binding.resource_name.startswith(f"/{target.namespace}/"):
                return True
        return False

    def _placed(self, target: Target) -> Target:
        """The target; a schema subject in the namespace of its topic, where its name tells one and no other.

        The subject of `/shop/orders` is `shop-orders`, or has the topic's name. Where there are the namespaces `shop`
        and `shop-eu`, `shop-eu-orders` belongs to neither, so that none takes what is the other's.
        """
        subject = target.topic
        if target.namespace or not subject:
            return target
        if subject.startswith("/"):
            return replace(target, namespace=topic_target(subject).namespace)
        dashes = (at for at, each in enumerate(subject[:NAME_BYTES_MAX]) if each == "-")
        found = [subject[:at] for at in dashes if self.is_namespace(subject[:at])]
        return replace(target, namespace=found[0]) if len(found) == 1 else target

    def is_bound(self, principal: Principal) -> bool:
        """Tell whether the principal may do anything at all."""
        if principal.id.kind is PrincipalKind.BROKER or self._is_super_admin(principal):
            return True
        return any(self.granted(binding) for binding in self.bindings.get(principal.id, ()))

    def granted(self, binding: Binding) -> frozenset[Permission]:
        """Permissions of a binding's roles; a role that is gone grants nothing."""
        found = (self.roles[name].permissions for name in binding.role_names if name in self.roles)
        return frozenset(permission for permissions in found for permission in permissions)

    def administrators(self) -> set[PrincipalName]:
        """Principals that may give roles by a binding."""
        return {
            principal
            for principal, bindings in self.bindings.items()
            for binding in bindings
            if binding.scope is BindingScope.CLUSTER and Permission.MANAGE_CLUSTER in self.granted(binding)
        }

    def approvers(self) -> set[str]:
        """Names of those who may consent to plans of others, by a binding or as super administrators."""
        bound = {
            principal.name
            for principal, bindings in self.bindings.items()
            for binding in bindings
            if binding.scope is BindingScope.CLUSTER and Permission.APPROVE in self.granted(binding)
        }
        return bound | {principal.name for principal in self.super_admins}

    def _is_super_admin(self, principal: Principal) -> bool:
        of_no_kind = () if principal.names_kind else (PrincipalName(PrincipalKind.USER, principal.id.name),)
        return any(name in self.super_admins for name in (principal.id, *of_no_kind))

    def _nearest(self, held: tuple[Binding, ...], wanted: frozenset[Permission], target: Target) -> Binding | None:
        elsewhere = [binding for binding in held if self.granted(binding) & wanted]
        here = [binding for binding in held if target.is_within(binding, self.is_plain)]
        return next(iter([*elsewhere, *here]), None)


def _enough(permission: Permission, effect: Effect, target: Target) -> frozenset[Permission]:
    """Permissions of which any one is enough. Who may view the cluster may read what brokers publish of themselves."""
    of_brokers = permission is Permission.CONSUME and target.namespace == SYSTEM_NAMESPACE
    if effect is Effect.READ and (permission in _MANAGES or of_brokers):
        return frozenset({permission, Permission.VIEW})
    return frozenset({permission})


def beyond_scope(principal: Principal, permission: Permission, effect: Effect) -> str:
    """The reason why a token of this scope may not do it, whatever its principal may; empty where it may."""
    if principal.scope is TokenScope.ADMIN:
        return ""
    if permission is Permission.APPROVE:
        return f"a token of scope {principal.scope} cannot approve: a person approves with credentials of their own"
    if principal.scope is TokenScope.OBSERVER and effect is not Effect.READ:
        return f"a token of scope observer only reads: {permission} with effect {effect} needs operator or admin"
    if principal.scope is TokenScope.OPERATOR and effect is Effect.DESTROY:
        return (
            f"a token of scope operator destroys nothing by itself ({permission}): make a plan, which another principal"
            " approves, and apply it"
        )
    return ""
