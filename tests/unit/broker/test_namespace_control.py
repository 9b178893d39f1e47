import asyncio

import pytest

from danube.model.calls.admin import NamespacePolicies
from danube.model.errors import (
    AlreadyExistsError,
    InvalidNameError,
    NamespaceNotFoundError,
    PreconditionFailedError,
)
from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.model.topic import TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.wire.gen import DanubeAdmin_pb2


async def test_namespaces_are_listed_once_and_sorted(start_broker: StartBroker) -> None:
    cell = await start_broker(bootstrap_namespaces=("default", "payments"))
    await cell.admin.create_namespace("audit")
    assert await cell.admin.namespaces() == ("audit", "default", "payments", "system")


async def test_created_namespace_takes_topics_and_outlives_a_restart(start_broker: StartBroker) -> None:
    cell = await start_broker()
    await cell.admin.create_namespace("apart")
    cell = await start_broker()
    await cell.admin.create_topic(TopicName("apart", "t"))
    assert "apart" in await cell.admin.namespaces()


async def test_deleted_namespace_is_gone_after_a_restart_too(start_broker: StartBroker) -> None:
    cell = await start_broker()
    await cell.admin.create_namespace("apart")
    await cell.admin.delete_namespace("apart")
    cell = await start_broker()
    assert "apart" not in await cell.admin.namespaces()
    with pytest.raises(NamespaceNotFoundError):
        await cell.admin.create_topic(TopicName("apart", "t"))


async def test_creating_a_namespace_twice_is_refused(cell: Cell) -> None:
    with pytest.raises(AlreadyExistsError, match="already exists"):
        await cell.admin.create_namespace("default")


@pytest.mark.parametrize("name", ["", "a/b", "a.b", "x" * 300])
async def test_bad_name_of_a_namespace_is_refused(cell: Cell, name: str) -> None:
    request = DanubeAdmin_pb2.NamespaceRequest(name=name).SerializeToString()
    with pytest.raises(InvalidNameError):
        await cell.admin.call("/danube_admin.NamespaceAdmin/CreateNamespace", request)


async def test_namespace_with_topics_is_not_deleted_and_says_how_many_there_are(cell: Cell) -> None:
    await cell.admin.create_namespace("apart")
    await cell.admin.create_partitioned_topic(TopicName("apart", "t"), 3)
    with pytest.raises(PreconditionFailedError, match="it has 3 topics"):
        await cell.admin.delete_namespace("apart")
    assert len(await cell.admin.topics("apart")) == 3


async def test_topics_of_a_namespace_whose_name_begins_alike_do_not_count(cell: Cell) -> None:
    for name in ("foo", "foobar"):
        await cell.admin.create_namespace(name)
    await cell.admin.create_topic(TopicName("foobar", "t"))
    assert await cell.admin.topics("foo") == ()
    await cell.admin.delete_namespace("foo")


@pytest.mark.parametrize("name", ["default", "system"])
async def test_built_in_namespaces_stay(cell: Cell, name: str) -> None:
    with pytest.raises(PreconditionFailedError, match="built in"):
        await cell.admin.delete_namespace(name)


async def test_unknown_namespace_is_not_found_wherever_it_is_asked_for(cell: Cell) -> None:
    for ask in (
        cell.admin.delete_namespace,
        cell.admin.policies,
        cell.admin.topics,
        cell.admin.namespace_topics,
    ):
        with pytest.raises(NamespaceNotFoundError):
            await ask("nowhere")


async def test_policies_are_no_limit_but_the_brokers_own(cell: Cell) -> None:
    assert await cell.admin.policies("default") == NamespacePolicies(max_message_size=MESSAGE_BYTES_MAX)


async def test_topics_of_a_namespace_are_sorted_names(cell: Cell) -> None:
    for local in ("b", "a"):
        await cell.admin.create_topic(TopicName("default", local))
    assert await cell.admin.namespace_topics("default") == (TopicName("default", "a"), TopicName("default", "b"))


async def test_of_a_topic_and_the_end_of_its_namespace_one_loses_cleanly(cell: Cell) -> None:
    for index in range(20):
        namespace = f"ns-{index}"
        await cell.admin.create_namespace(namespace)
        created, deleted = await asyncio.gather(
            cell.admin.create_topic(TopicName(namespace, "t")),
            cell.admin.delete_namespace(namespace),
            return_exceptions=True,
        )
        if created is None:
            assert isinstance(deleted, PreconditionFailedError)
            assert len(await cell.admin.topics(namespace)) == 1
        else:
            assert isinstance(created, NamespaceNotFoundError)
            assert deleted is None
            assert namespace not in await cell.admin.namespaces()
