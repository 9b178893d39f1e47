"""Decisions: default deny, three scopes, and the reason of each answer."""

from dataclasses import replace

import pytest

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import NAME_BYTES_MAX
from danube.model.plans.plan import Effect
from danube.model.security.grants import Binding, BindingScope, Permission, Role, check_binding
from danube.model.security.principal import Principal, PrincipalKind, PrincipalName, TokenScope
from danube.security.decision import CLUSTER, Rules, Target, topic_target

ADA = PrincipalName(PrincipalKind.USER, "ada")
ORDERS = topic_target("/payments/orders")


def binding(role: str, scope: BindingScope = BindingScope.CLUSTER, resource: str = "") -> Binding:
    return Binding(
        id=f"{role}-{scope}",
        principal_type=ADA.kind,
        principal_name=ADA.name,
        role_names=(role,),
        scope=scope,
        resource_name=resource,
    )


def decide(
    rules: Rules, permission: Permission, target: Target, effect: Effect = Effect.WRITE, *, who: Principal | None = None
) -> bool:
    return rules.decide(who or Principal(id=ADA), permission, effect, target).allowed


def test_nothing_is_allowed_without_a_binding() -> None:
    decision = Rules.of([], []).decide(Principal(id=ADA), Permission.CONSUME, Effect.READ, ORDERS)
    assert not decision.allowed
    assert decision.reason == "no binding grants Consume on /payments/orders to user:ada"


SCOPES = {
    "cluster": (binding("consumer"), True, True, True),
    "namespace": (binding("consumer", BindingScope.NAMESPACE, "payments"), True, True, False),
    "another namespace": (binding("consumer", BindingScope.NAMESPACE, "payment"), False, False, False),
    "topic": (binding("consumer", BindingScope.TOPIC, "/payments/orders"), True, True, False),
    "another topic": (binding("consumer", BindingScope.TOPIC, "/payments/order"), False, False, False),
}


@pytest.mark.parametrize(("held", "topic", "partition", "cluster"), SCOPES.values(), ids=SCOPES)
def test_a_binding_reaches_what_is_within_its_scope(held: Binding, topic: bool, partition: bool, cluster: bool) -> None:
    rules = Rules.of([], [held])
    partition_target = topic_target("/payments/orders-part-3")
    reached = [decide(rules, Permission.CONSUME, target) for target in (ORDERS, partition_target, CLUSTER)]
    assert reached == [topic, partition, cluster]


def test_a_plain_topic_with_the_name_of_a_partition_has_no_binding_of_the_partitioned_one() -> None:
    held = binding("consumer", BindingScope.TOPIC, "/payments/orders")
    rules = Rules.of([], [held], is_plain={"/payments/orders-part-2024"}.__contains__)
    plain, partition = topic_target("/payments/orders-part-2024"), topic_target("/payments/orders-part-3")
    assert not decide(rules, Permission.CONSUME, plain)
    assert decide(rules, Permission.CONSUME, partition)
    own = Rules.of([], [replace(held, resource_name=plain.topic)], is_plain=rules.is_plain)
    assert decide(own, Permission.CONSUME, plain)


def test_who_may_view_the_cluster_reads_what_brokers_publish_and_nothing_else() -> None:
    rules, telemetry = Rules.of([], [binding("observer")]), topic_target("/system/telemetry")
    assert decide(rules, Permission.CONSUME, telemetry, Effect.READ)
    assert not decide(rules, Permission.CONSUME, telemetry, Effect.WRITE)
    assert not decide(rules, Permission.CONSUME, ORDERS, Effect.READ)


def test_a_decision_names_the_binding_that_made_it_or_the_nearest() -> None:
    near = binding("consumer", BindingScope.TOPIC, "/payments/refunds")
    rules = Rules.of([], [near])
    allowed = rules.decide(Principal(id=ADA), Permission.CONSUME, Effect.READ, topic_target("/payments/refunds"))
    assert allowed.binding == near
    denied = rules.decide(Principal(id=ADA), Permission.CONSUME, Effect.READ, ORDERS)
    assert denied.nearest == near
    assert denied.reason.endswith("nearest is binding consumer-topic (consumer on /payments/refunds)")


def test_a_role_that_is_gone_grants_nothing_and_a_built_in_one_cannot_be_replaced() -> None:
    evil = Role(name="observer", permissions=tuple(Permission))
    rules = Rules.of([evil], [binding("observer"), binding("deleted")])
    assert not decide(rules, Permission.MANAGE_CLUSTER, CLUSTER, Effect.DESTROY)
    assert decide(rules, Permission.MANAGE_CLUSTER, CLUSTER, Effect.READ)


def test_an_observer_reads_what_a_manager_changes() -> None:
    rules = Rules.of([], [binding("observer")])
    assert decide(rules, Permission.MANAGE_TOPIC, ORDERS, Effect.READ)
    assert not decide(rules, Permission.MANAGE_TOPIC, ORDERS, Effect.WRITE)
    assert not decide(rules, Permission.CONSUME, ORDERS, Effect.READ)


@pytest.mark.parametrize(
    ("scope", "permission", "effect", "allowed"),
    [
        (TokenScope.OBSERVER, Permission.MANAGE_TOPIC, Effect.READ, True),
        (TokenScope.OBSERVER, Permission.MANAGE_TOPIC, Effect.WRITE, False),
        (TokenScope.OPERATOR, Permission.MANAGE_TOPIC, Effect.MOVE, True),
        (TokenScope.OPERATOR, Permission.APPROVE, Effect.WRITE, False),
        (TokenScope.ADMIN, Permission.APPROVE, Effect.WRITE, True),
    ],
)
def test_the_scope_of_a_token_bounds_its_principal(
    scope: TokenScope, permission: Permission, effect: Effect, allowed: bool
) -> None:
    rules = Rules.of([], [binding("admin")])
    assert decide(rules, permission, CLUSTER, effect, who=Principal(id=ADA, scope=scope)) is allowed


def test_brokers_and_super_admins_pass_without_a_binding() -> None:
    rules = Rules.of([], [], super_admins=["root"])
    for principal in (PrincipalName(PrincipalKind.BROKER, "b1"), PrincipalName(PrincipalKind.USER, "root")):
        assert decide(rules, Permission.MANAGE_CLUSTER, CLUSTER, Effect.DESTROY, who=Principal(id=principal))


def test_a_super_admin_is_named_with_its_kind_so_another_of_that_name_is_none() -> None:
    user, account = (PrincipalName(kind, "root") for kind in (PrincipalKind.USER, PrincipalKind.SERVICE_ACCOUNT))
    for named, admin, other in (("root", user, account), ("user:root", user, account), (str(account), account, user)):
        rules = Rules.of([], [], super_admins=[named])
        assert decide(rules, Permission.MANAGE_CLUSTER, CLUSTER, Effect.DESTROY, who=Principal(id=admin))
        assert not decide(rules, Permission.MANAGE_CLUSTER, CLUSTER, Effect.DESTROY, who=Principal(id=other))


def test_a_super_admin_by_name_alone_may_have_a_token_that_names_no_kind() -> None:
    rules = Rules.of([], [], super_admins=["root"])
    account = PrincipalName(PrincipalKind.SERVICE_ACCOUNT, "root")
    for names_kind in (True, False):
        who = Principal(id=account, names_kind=names_kind)
        assert decide(rules, Permission.MANAGE_CLUSTER, CLUSTER, Effect.DESTROY, who=who) is not names_kind


def test_names_without_a_grant_are_not_seen() -> None:
    rules = Rules.of([], [binding("consumer", BindingScope.TOPIC, "/payments/orders")])
    seen = [Target("payments"), Target("payroll"), ORDERS, topic_target("/payments/refunds"), CLUSTER]
    assert [rules.sees(Principal(id=ADA), target) for target in seen] == [True, False, True, False, False]


def test_administrators_are_those_who_may_give_roles() -> None:
    rules = Rules.of([], [binding("admin"), binding("admin", BindingScope.NAMESPACE, "payments")])
    assert rules.administrators() == {ADA}
    assert Rules.of([], [binding("operator")]).administrators() == set()


def test_a_namespace_may_be_written_with_its_slash() -> None:
    assert check_binding(binding("consumer", BindingScope.NAMESPACE, "/payments")).resource_name == "payments"


@pytest.mark.parametrize(
    ("scope", "resource"),
    [
        (BindingScope.CLUSTER, "payments"),
        (BindingScope.NAMESPACE, ""),
        (BindingScope.NAMESPACE, "/payments/orders"),
        (BindingScope.TOPIC, ""),
        (BindingScope.TOPIC, "payments/orders"),
    ],
)
def test_a_binding_that_could_never_match_is_refused(scope: BindingScope, resource: str) -> None:
    with pytest.raises(InvalidRequestError):
        check_binding(binding("consumer", scope, resource))


@pytest.mark.parametrize(
    ("subject", "is_of_shop"),
    [
        ("shop-orders", True),
        ("shop-orders-value", True),
        ("/shop/orders", True),
        ("shop", False),
        ("shops-orders", False),
        ("orders", False),
        ("shop-eu-orders", False),
        ("/shop-eu/orders", False),
        ("", False),
    ],
)
def test_a_schema_subject_belongs_to_the_one_namespace_that_its_name_tells(subject: str, is_of_shop: bool) -> None:
    held = [binding("owner", BindingScope.NAMESPACE, "shop")]
    rules = Rules.of([], held, is_namespace={"shop", "shop-eu", "default"}.__contains__)
    decision = rules.decide(Principal(id=ADA), Permission.MANAGE_SCHEMA, Effect.WRITE, Target("", subject))
    assert decision.allowed is is_of_shop


def test_a_subject_of_a_million_dashes_costs_no_more_than_a_long_name() -> None:
    asked = []

    def is_namespace(name: str) -> bool:
        asked.append(name)
        return False

    rules = Rules.of([], [binding("owner", BindingScope.NAMESPACE, "shop")], is_namespace=is_namespace)
    assert not decide(rules, Permission.MANAGE_SCHEMA, Target("", "-" * 1_000_000))
    assert len(asked) <= NAME_BYTES_MAX
