"""The original broker: its answers put in order, its errors given their names, and plans and audit log kept for it.

Its lists have entries twice, it answers OK for topics that are not there and NOT_FOUND for "already exists", and it
finds topics by the beginning of their namespace's name. What is sure is mended; what is not is passed on as it is.
"""

from collections.abc import Iterable
from typing import NoReturn

from danube.admin.grpc_gateway.calls import AdminCalls
from danube.admin.local_state import LocalState
from danube.model.calls.admin import UnloadBroker, Unsubscribe
from danube.model.calls.security import BindingKey
from danube.model.errors import (
    AlreadyExistsError,
    DanubeError,
    InvalidRequestError,
    NamespaceNotFoundError,
    NotFoundError,
    PreconditionFailedError,
    SubscriptionNotFoundError,
    TopicExistsError,
    TopicNotFoundError,
    UnsupportedError,
)
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.plans.plan import (
    Arguments,
    Impact,
    Plan,
    PlanApplication,
    PlanRequest,
    check_applicable,
    fingerprint_of,
)
from danube.model.policies import SubscriptionName
from danube.model.security.grants import BindingScope
from danube.model.text import count_text
from danube.model.topic import TopicName
from danube.wire.security import messages as security

_GRANTS = "/danube_admin.SecurityAdmin"
_SUBSCRIPTION_KEYS = frozenset({"cursor", "failure_policy", "dispatch_config"})
"""What the original keeps below a subscription, and lists as if each were one."""


def real_subscriptions(names: Iterable[str]) -> list[str]:
    """Each once, sorted, without the keys that are kept below a subscription; where there is nothing else, they are."""
    found = set(names)
    return sorted(found - _SUBSCRIPTION_KEYS or found)


class OriginalAnswers:
    """Looks at what the original answered, and raises what it meant."""

    def __init__(self, calls: AdminCalls) -> None:
        self._calls = calls

    async def require_namespace(self, namespace: str) -> None:
        """Raise NamespaceNotFoundError unless it is there."""
        if namespace not in await self._calls.namespaces():
            raise NamespaceNotFoundError(f"there is no namespace {namespace!r}: list the namespaces to see their names")

    async def require_topic(self, topic: TopicName) -> None:
        """Raise TopicNotFoundError unless it is there, and not only partitions of it."""
        if topic not in {info.topic for info in await self._calls.topics(topic.namespace)}:
            raise TopicNotFoundError(f"there is no topic {topic}: list the topics of its namespace to see their names")

    async def require_subscription(self, name: SubscriptionName) -> None:
        """Raise TopicNotFoundError or SubscriptionNotFoundError unless both are there."""
        if name.subscription not in real_subscriptions(await self._calls.subscriptions(name.topic)):
            await self.require_topic(name.topic)
            raise SubscriptionNotFoundError(
                f"there is no subscription {name.subscription[:80]!r} on {name.topic}: list its subscriptions to see"
                " their names"
            )

    async def require_broker(self, broker_id: str) -> None:
        """Raise NotFoundError unless it is there."""
        if broker_id not in {info.broker_id for info in await self._calls.brokers()}:
            raise NotFoundError(f"there is no broker {broker_id[:40]!r}: list the brokers to see their ids")

    async def explain_namespace_refused(self, namespace: str, error: NotFoundError) -> NoReturn:
        """Raise what NOT_FOUND means for a namespace that could not be created."""
        if namespace in await self._calls.namespaces():
            raise AlreadyExistsError(f"there is a namespace {namespace!r} already") from error
        raise InvalidRequestError(f"the namespace {namespace!r} was not created: {error}") from error

    async def explain_topic_refused(self, topic: TopicName, error: NotFoundError) -> NoReturn:
        """Raise what NOT_FOUND means for a topic that could not be created."""
        await self.require_namespace(topic.namespace)
        for info in await self._calls.topics(topic.namespace):
            if topic in {info.topic, info.base}:
                raise TopicExistsError(f"there is a topic {info.topic} already") from error
        raise InvalidRequestError(f"the topic {topic} was not created: {error}") from error


class OriginalPlansAndAudit:
    """Plans and audit log in the user's state folder. What a plan touches is what the original tells: names alone.

    A plan is marked as applied before the call, and stays so when the call fails: nobody can tell then what was done.
    """

    def __init__(self, calls: AdminCalls, state: LocalState) -> None:
        self._calls = calls
        self._state = state
        self._answers = OriginalAnswers(calls)
        self.plan, self.plans, self.decide_plan = state.plan, state.plans, state.decide
        self.record, self.audit = state.record, state.audit

    async def create_plan(self, request: PlanRequest) -> Plan:
        return await self._state.create(request, await self._impact(request.operation, request.arguments))

    async def apply_plan(self, application: PlanApplication) -> Plan:
        plan = await self._state.plan(application.plan_id)
        check_applicable(plan, application, plan.impact, plan.created_ms)  # "applied already" before "no such topic"
        impact = await self._impact(plan.operation, plan.arguments)
        applied = await self._state.mark_applied(application, impact)
        try:
            await self._act(plan.operation, plan.arguments)
        except DanubeError as error:
            raise type(error)(f"{error}; plan {plan.plan_id} is spent: look, and ask for a new one") from error
        return applied

    async def _impact(self, operation: str, arguments: Arguments) -> Impact:
        match operation:
            case "delete_topic":
                return await self._deleted_topics(_topic(arguments))
            case "delete_namespace":
                return await self._deleted_namespace(str(arguments["namespace"]))
            case "unsubscribe":
                return await self._unsubscribed(_unsubscribe(arguments))
            case "promote_cluster_node" | "remove_cluster_node":
                return await self._member_changed(operation, str(arguments["node_id"]))
            case "unload_topic":
                return await self._moved_topics(_topic(arguments), arguments.get("broker_id"))
            case "unload_broker":
                return await self._unloaded_broker(_unload_broker(arguments))
        return await self._without_topics(operation, arguments)

    async def _act(self, operation: str, arguments: Arguments) -> None:
        match operation:
            case "delete_topic":
                await self._delete_topics(_topic(arguments))
            case "delete_namespace":
                await self._calls.delete_namespace(str(arguments["namespace"]))
            case "unsubscribe":
                await self._unsubscribe(_unsubscribe(arguments))
            case "promote_cluster_node":
                await self._calls.promote_node(str(arguments["node_id"]))
            case "remove_cluster_node":
                await self._calls.remove_node(str(arguments["node_id"]))
            case "unload_topic":
                for topic in await self._behind(_topic(arguments)):
                    await self._calls.unload_topic(topic)
            case "unload_broker":
                await self._calls.unload_broker(_unload_broker(arguments))
            case "activate_broker":
                await self._calls.activate_broker(str(arguments["broker_id"]))
            case "delete_role" | "delete_binding":
                await self._take_right(operation, arguments)

    async def _delete_topics(self, name: TopicName) -> None:
        """Outside a cluster the original takes a base name for a topic, deletes nothing and says that it did."""
        found = await self._behind(name)
        if found == [name] or await self._calls.is_cluster():
            await self._calls.delete_topic(name)
            return
        for partition in found:
            await self._calls.delete_topic(partition)

    async def _unsubscribe(self, wanted: Unsubscribe) -> None:
        try:
            await self._calls.unsubscribe(wanted)
        except NotFoundError as error:  # it was there a moment ago
            raise PreconditionFailedError(
                f"subscription {wanted.subscription!r} on {wanted.topic} was not deleted: stop its consumers first"
                f" ({error})"
            ) from error

    async def _moved_topics(self, name: TopicName, broker_id: str | None) -> Impact:
        if broker_id is not None:
            raise UnsupportedError("the original's broker chooses itself where a topic goes: leave the broker id out")
        return _moved([f"Move topic {name} to another broker."], await self._behind(name))

    async def _unloaded_broker(self, wanted: UnloadBroker) -> Impact:
        await self._answers.require_broker(wanted.broker_id)
        found = [info.topic for info in await self._calls.topics_on(wanted.broker_id)]
        include, exclude = wanted.namespaces_include, wanted.namespaces_exclude
        leaving = [
            topic
            for topic in found
            if topic.namespace in (include or {topic.namespace}) and topic.namespace not in exclude
        ]
        changes = [
            f"Have {count_text(len(leaving), 'topic')} leave broker {wanted.broker_id}.",
            f"Assign no new topics to broker {wanted.broker_id} until it is activated.",
        ]
        return _moved(changes, leaving)

    async def _behind(self, name: TopicName) -> list[TopicName]:
        topics = {info.topic for info in await self._calls.topics(name.namespace)}
        if name in topics:
            return [name]
        partitions = sorted((each for each in topics if each.base_by_form == name), key=_index)
        if not partitions:
            raise TopicNotFoundError(f"there is no topic {name}: list the topics of its namespace to see their names")
        return partitions

    async def _deleted_topics(self, name: TopicName) -> Impact:
        found = await self._behind(name)
        if (base := name.base_by_form) is not None and found == [name]:
            raise PreconditionFailedError(
                f"Cannot delete individual partition {name}: delete {base}, which deletes all its partitions"
            )
        by_topic = {str(topic): real_subscriptions(await self._calls.subscriptions(topic)) for topic in found}
        pairs = [f"{topic} {subscription}" for topic, names in by_topic.items() for subscription in names]
        with_partitions = "" if found == [name] else f", which has {count_text(len(found), 'partition')}"
        return Impact(
            changes=(
                f"Delete topic {name}{with_partitions}.",
                *((f"Delete {count_text(len(pairs), 'subscription')}.",) if pairs else ()),
            ),
            irreversible=("Its messages, if it has any, cannot be read any more: this broker does not tell how many.",),
            topics=tuple(by_topic)[:PLAN_NAMES_MAX],
            topic_count=len(by_topic),
            subscriptions=tuple(pairs[:PLAN_NAMES_MAX]),
            subscription_count=len(pairs),
            fingerprint=fingerprint_of(by_topic),
        )

    async def _deleted_namespace(self, namespace: str) -> Impact:
        await self._answers.require_namespace(namespace)
        topics = await self._calls.topics(namespace)
        if topics:
            raise PreconditionFailedError(
                f"namespace {namespace!r} has {count_text(len(topics), 'topic')}: delete them first"
            )
        return Impact(
            changes=(f"Delete namespace {namespace}, which has no topics.",), fingerprint=fingerprint_of([namespace])
        )

    async def _member_changed(self, operation: str, node_id: str) -> Impact:
        """Its members change at the broker that leads, and nowhere else."""
        status = await self._calls.raft_status()
        if node_id not in {*status.voters, *status.learners}:
            raise NotFoundError(f"there is no node {node_id} in this cluster: its status lists those that there are")
        if status.self_node_id != status.leader_id:
            raise PreconditionFailedError(
                f"node {status.leader_id} leads, and the original's brokers change members nowhere else: name its admin"
                " port with --endpoint"
            )
        fingerprint = fingerprint_of([node_id, sorted(status.voters), sorted(status.learners)])
        if operation == "promote_cluster_node":
            return Impact(changes=(f"Give node {node_id} a vote.",), fingerprint=fingerprint)
        if node_id == status.leader_id:
            raise PreconditionFailedError(f"node {node_id} leads: stop its broker first, then another one leads")
        gone = "Topics that it serves are not moved: unload its broker first."
        return Impact(
            changes=(f"Remove node {node_id} from the cluster.",), irreversible=(gone,), fingerprint=fingerprint
        )

    async def _without_topics(self, operation: str, arguments: Arguments) -> Impact:
        if operation == "delete_role":
            path, name = f"{_GRANTS}/GetRole", str(arguments["name"])
            role = await self._calls.ask(path, security.ROLE_NAME, name, security.ROLE_FOUND)
            change = f"Delete role {role.name}, which grants {', '.join(role.permissions)}."
        elif operation == "activate_broker":
            broker_id = str(arguments["broker_id"])
            await self._answers.require_broker(broker_id)
            change = f"Have broker {broker_id} get topics again; those that left it stay where they are."
        elif operation == "delete_binding":
            path, key = f"{_GRANTS}/GetBinding", _binding_key(arguments)
            binding = await self._calls.ask(path, security.GET_BINDING, key, security.BINDING_FOUND)
            change = f"Take binding {binding} away from {binding.principal}."
        else:
            raise UnsupportedError(
                f"the original's broker cannot do {operation[:80]} by a plan: it does delete_topic, delete_namespace,"
                " unsubscribe, unload_topic, unload_broker, activate_broker, promote_cluster_node, remove_cluster_node,"
                " delete_role and delete_binding; the rest only brokers of this project do"
            )
        return Impact(changes=(change,), fingerprint=fingerprint_of(change))

    async def _take_right(self, operation: str, arguments: Arguments) -> None:
        if operation == "delete_role":
            path, name = f"{_GRANTS}/DeleteRole", str(arguments["name"])
            is_done = await self._calls.ask(path, security.DELETE_ROLE, name, security.ROLE_DELETED)
        else:
            path, key = f"{_GRANTS}/DeleteBinding", _binding_key(arguments)
            is_done = await self._calls.ask(path, security.DELETE_BINDING, key, security.BINDING_DELETED)
        if not is_done:
            raise NotFoundError(f"the broker did not do it and does not say why ({path}): list what is there")

    async def _unsubscribed(self, wanted: Unsubscribe) -> Impact:
        topic, subscription = wanted.topic, wanted.subscription
        await self._answers.require_subscription(SubscriptionName(topic=topic, subscription=subscription))
        return Impact(
            changes=(f"Delete subscription {subscription!r} of {topic}.",),
            irreversible=("Its place in the topic is lost: this broker does not tell how much it has not read.",),
            topics=(str(topic),),
            topic_count=1,
            subscriptions=(f"{topic} {subscription}",),
            subscription_count=1,
            fingerprint=fingerprint_of([str(topic), subscription]),
        )


def _moved(changes: list[str], topics: list[TopicName]) -> Impact:
    names = [str(topic) for topic in topics]
    unknown = "Their sizes and their next brokers are not known: this broker does not tell."
    return Impact(
        changes=(*changes, unknown),
        topics=tuple(names[:PLAN_NAMES_MAX]),
        topic_count=len(names),
        fingerprint=fingerprint_of([changes, names]),
    )


def _topic(arguments: Arguments) -> TopicName:
    return TopicName.parse(str(arguments["topic"]))


def _unload_broker(arguments: Arguments) -> UnloadBroker:
    return UnloadBroker(
        broker_id=str(arguments["broker_id"]),
        max_parallel=int(arguments["max_parallel"]),
        namespaces_include=tuple(arguments["namespaces_include"]),
        namespaces_exclude=tuple(arguments["namespaces_exclude"]),
    )


def _binding_key(arguments: Arguments) -> BindingKey:
    scope = BindingScope(arguments["scope"])
    resource = str(arguments["resource"])
    resource = resource.strip("/") if scope is BindingScope.NAMESPACE else resource
    return BindingKey(scope=scope, resource_name=resource, binding_id=str(arguments["id"]))


def _unsubscribe(arguments: Arguments) -> Unsubscribe:
    return Unsubscribe(topic=_topic(arguments), subscription=str(arguments["subscription"]))


def _index(topic: TopicName) -> int:
    return topic.partition_index or 0
