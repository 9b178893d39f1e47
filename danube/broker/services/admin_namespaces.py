"""`danube_admin.NamespaceAdmin`: each method one line into `control/`."""

from danube.broker.services.answers import answer_change, answer_later, making_room
from danube.broker.services.context import ServiceContext
from danube.rpc.carrier import Service
from danube.wire import decode_admin, encode_admin


def namespace_admin_service(context: ServiceContext) -> Service:
    """`danube_admin.NamespaceAdmin`."""
    namespaces, name = context.control.namespaces, decode_admin.namespace
    return Service(
        "danube_admin.NamespaceAdmin",
        unary={
            "GetNamespaceTopics": answer_later(context, name, namespaces.topics, encode_admin.namespace_topics),
            "GetNamespacePolicies": answer_later(context, name, namespaces.policies, encode_admin.policies),
            "CreateNamespace": answer_change(context, name, namespaces.create),
            "DeleteNamespace": answer_change(context, name, making_room(context, namespaces.delete)),
        },
    )
