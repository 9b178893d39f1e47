"""`danube_admin.NamespaceAdmin`: each method one line into `control/`."""

from danube.broker.services.context import ServiceContext
from danube.rpc.carrier import Service, UnaryCall
from danube.wire import decode_admin, encode_admin


def namespace_admin_service(context: ServiceContext) -> Service:
    """`danube_admin.NamespaceAdmin`."""
    namespaces = context.control.namespaces

    def get_topics(request: bytes, call: UnaryCall) -> None:
        name = decode_admin.namespace(request)

        async def work() -> bytes:
            return encode_admin.namespace_topics(await namespaces.topics(name))

        context.answer_later(call, "get topics of a namespace", work)

    def get_policies(request: bytes, call: UnaryCall) -> None:
        name = decode_admin.namespace(request)

        async def work() -> bytes:
            return encode_admin.policies(await namespaces.policies(name))

        context.answer_later(call, "get policies of a namespace", work)

    def create(request: bytes, call: UnaryCall) -> None:
        name = decode_admin.namespace(request)

        async def work() -> bytes:
            await namespaces.create(name)
            return encode_admin.success()

        context.answer_later(call, "create namespace", work)

    def delete(request: bytes, call: UnaryCall) -> None:
        name = decode_admin.namespace(request)

        async def work() -> bytes:
            await namespaces.delete(name)
            return encode_admin.success()

        context.answer_later(call, "delete namespace", work)

    return Service(
        "danube_admin.NamespaceAdmin",
        unary={
            "GetNamespaceTopics": get_topics,
            "GetNamespacePolicies": get_policies,
            "CreateNamespace": create,
            "DeleteNamespace": delete,
        },
    )
