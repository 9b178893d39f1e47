"""Calls of clients and administrators: decode, call one method of the broker, encode."""

from danube.broker.services.catalogue import ADMIN_CALLS, CLIENT_CALLS
from danube.broker.services.context import ServiceContext
from danube.broker.services.interceptors import services_of
from danube.rpc.carrier import Service


def client_services(context: ServiceContext) -> list[Service]:
    """Services of the client port."""
    return services_of(CLIENT_CALLS, context, is_admin=False)


def admin_services(context: ServiceContext) -> list[Service]:
    """Services of the admin port."""
    return services_of(ADMIN_CALLS, context, is_admin=True)
