"""The gRPC edge: decode, call one domain method, encode; nothing else."""

from danube.broker.services.admin_brokers import broker_admin_service, cluster_admin_service, cluster_service
from danube.broker.services.admin_inspection import inspection_service
from danube.broker.services.admin_namespaces import namespace_admin_service
from danube.broker.services.admin_oversight import audit_service, plans_service
from danube.broker.services.admin_policies import policies_service
from danube.broker.services.admin_positions import positions_service
from danube.broker.services.admin_topics import topic_admin_service
from danube.broker.services.consume import consumer_service
from danube.broker.services.context import ServiceContext
from danube.broker.services.discovery import discovery_service
from danube.broker.services.health import health_service
from danube.broker.services.interceptors import intercept
from danube.broker.services.produce import producer_service
from danube.broker.services.stream import stream_service
from danube.rpc.carrier import Service


def client_services(context: ServiceContext) -> list[Service]:
    """What the client port serves."""
    services = [
        producer_service(context),
        consumer_service(context),
        discovery_service(context),
        health_service(context),
        stream_service(context),
    ]
    return [intercept(service, context) for service in services]


def admin_services(context: ServiceContext) -> list[Service]:
    """What the admin port serves."""
    services = [
        broker_admin_service(context),
        cluster_admin_service(context),
        cluster_service(context),
        namespace_admin_service(context),
        topic_admin_service(context),
        inspection_service(context),
        policies_service(context),
        positions_service(context),
        plans_service(context),
        audit_service(context),
    ]
    return [intercept(service, context) for service in services]
