"""The call catalogue has an entry for each method of the services that the broker has, and for no other."""

import pytest
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor

from danube.broker.services.call import Action, Call
from danube.broker.services.catalogue import ADMIN_CALLS, CLIENT_CALLS
from danube.model.plans.plan import Effect
from danube.wire.gen import (
    DanubeAdmin_pb2,
    DanubeAnalytics_pb2,
    DanubeApi_pb2,
    DanubeAuth_pb2,
    DanubeBalance_pb2,
    DanubeControl_pb2,
    DanubeSecurity_pb2,
    DanubeStream_pb2,
    EdgeReplicator_pb2,
    SchemaRegistry_pb2,
)

FILES: tuple[FileDescriptor, ...] = (
    DanubeAdmin_pb2.DESCRIPTOR,
    DanubeApi_pb2.DESCRIPTOR,
    DanubeAuth_pb2.DESCRIPTOR,
    DanubeAnalytics_pb2.DESCRIPTOR,
    DanubeBalance_pb2.DESCRIPTOR,
    DanubeControl_pb2.DESCRIPTOR,
    DanubeSecurity_pb2.DESCRIPTOR,
    DanubeStream_pb2.DESCRIPTOR,
    EdgeReplicator_pb2.DESCRIPTOR,
    SchemaRegistry_pb2.DESCRIPTOR,
)
NOT_SERVED = {
    "danube.StorageService",
    "danube.edge.EdgeReplicatorService",
}
"""Services that no broker of this project has: their calls get UNIMPLEMENTED."""

METHODS: dict[str, MethodDescriptor] = {
    f"{service.full_name}/{method.name}": method
    for file in FILES
    for service in file.services_by_name.values()
    for method in service.methods
    if service.full_name not in NOT_SERVED
}
ENTRIES: dict[str, Call] = {
    f"{service}/{method}": call
    for calls in (CLIENT_CALLS, ADMIN_CALLS)
    for service, methods in calls.items()
    for method, call in methods.items()
}


def test_every_method_has_an_entry_and_every_entry_a_method() -> None:
    assert ENTRIES.keys() == METHODS.keys()


@pytest.mark.parametrize("path", sorted(ENTRIES))
def test_an_entry_has_the_one_handler_that_its_method_takes(path: str) -> None:
    call, method = ENTRIES[path], METHODS[path]
    has = (call.unary is not None, call.server_stream is not None, call.stream is not None)
    many_answers = method.server_streaming
    assert has == (not many_answers, many_answers and not method.client_streaming, method.client_streaming)


def test_a_call_does_what_its_name_says() -> None:
    effects = {"Get": Effect.READ, "List": Effect.READ, "Describe": Effect.READ, "Delete": Effect.DESTROY}
    for path, call in ENTRIES.items():
        for verb, effect in effects.items():
            if path.rpartition("/")[2].startswith(verb):
                assert call.effect is effect, path


def test_few_calls_take_no_permission() -> None:
    """Subjects and namespaces that one sees, a health check, a key for a token, one's own records and connectors."""
    assert [path for path, call in ENTRIES.items() if call.action in {Action.ANY_CALLER, Action.EVERYBODY}] == [
        "danube.control.Connectors/ReportConnectors",
        "danube_schema.SchemaRegistry/ListSubjects",
        "danube.HealthCheck/HealthCheck",
        "danube.AuthService/Authenticate",
        "danube_admin.BrokerAdmin/ListNamespaces",
        "danube.control.Audit/Record",
    ]
