"""The routes that the original's admin UI reads, `/ui/v1/...`, as far as these operations go.

What the original takes from Prometheus and nobody here knows is 0 where it wants a number; schema and failure policy
are null. What fails on the way stands in `errors`, as in the original. Nothing is changed through these routes.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from danube.admin.operations.cluster.brokers import LIST_BROKERS, BrokerList, BrokerRow
from danube.admin.operations.cluster.members import CLUSTER_STATUS, ClusterStatus
from danube.admin.operations.cluster.namespaces import GET_NAMESPACE_POLICIES, LIST_NAMESPACES, NamespaceList
from danube.admin.operations.fields import Result
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.topics.topic_list import LIST_TOPICS, TopicList
from danube.admin.operations.topics.topics import DESCRIBE_TOPIC, TopicDetail
from danube.admin.web.protection.requests import person_of
from danube.admin.web.server import WebServer
from danube.model.errors import DanubeError, NotFoundError
from danube.model.limits.faces import WEB_ROWS_MAX

R = TypeVar("R", bound=Result)

PREFIX = "/ui/v1"
_ALL = {"limit": WEB_ROWS_MAX}


class OriginalRoutes:
    """The handlers."""

    def __init__(self, server: WebServer) -> None:
        self._server = server

    def routes(self) -> list[Route]:
        handlers: dict[str, Callable[[Request], Awaitable[dict[str, Any]]]] = {
            "/health": self._health,
            "/cluster": self._cluster,
            "/cluster/raft": self._raft,
            "/brokers/{broker_id}": self._broker,
            "/namespaces": self._namespaces,
            "/topics": self._topics,
            "/topics/{topic:path}": self._topic,
        }
        return [Route(PREFIX + path, _as_json(handler), methods=["GET"]) for path, handler in handlers.items()]

    async def _health(self, request: Request) -> dict[str, Any]:
        del request
        return {"status": "ok", "leader_reachable": await self._server.problem() is None}

    async def _cluster(self, request: Request) -> dict[str, Any]:
        brokers, errors = await self._brokers(request), list[str]()
        cards: list[dict[str, Any]] = []
        for row in brokers:
            topics = await self._topics_of(request, row, errors)
            cards.append({**_identity(row), "admin_addr": row.admin_addr, "stats": _stats(topics.total)})
        owned = sum(card["stats"]["topics_owned"] for card in cards)
        totals = {"broker_count": len(cards), "topics_total": owned, "rpc_total": 0, "active_connections": 0}
        return {"timestamp": self._now(), "brokers": cards, "totals": totals, "errors": errors}

    async def _raft(self, request: Request) -> dict[str, Any]:
        status = await self._call(request, CLUSTER_STATUS, {}, ClusterStatus)
        return {
            "leader_id": status.leader or "0",
            "current_term": status.current_term or 0,
            "last_applied": status.last_applied or 0,
            "voters": status.voters,
            "learners": status.learners,
            "self_node_id": status.self_node_id,
            "raft_addr": status.raft_addr or "",
        }

    async def _broker(self, request: Request) -> dict[str, Any]:
        wanted = request.path_params["broker_id"]
        row = next((row for row in await self._brokers(request) if row.broker_id == wanted), None)
        if row is None:
            raise NotFoundError("there is no broker with this id: /ui/v1/cluster lists them")
        errors = list[str]()
        topics = await self._topics_of(request, row, errors)
        metrics = {"rpc_total": 0, "inbound_bytes_total": 0, "outbound_bytes_total": 0, "errors_5xx_total": 0}
        return {
            "timestamp": self._now(),
            "broker": {name.removeprefix("broker_"): value for name, value in _identity(row).items()},
            "metrics": {**metrics, "topics_owned": topics.total},
            "topics": _topic_rows(topics),
            "errors": errors,
        }

    async def _namespaces(self, request: Request) -> dict[str, Any]:
        listed, errors = await self._call(request, LIST_NAMESPACES, _ALL, NamespaceList), list[str]()
        cards = []
        for row in listed.namespaces:
            try:
                topics = await self._call(
                    request, LIST_TOPICS, {"namespace": row.name, "brief": True, **_ALL}, TopicList
                )
                policies = await self._call(request, GET_NAMESPACE_POLICIES, {"namespace": row.name}, Result)
            except DanubeError as error:
                errors.append(f"{row.name}: {error}")
                continue
            names = [topic.name for topic in topics.topics]
            cards.append({"name": row.name, "topics": names, "policies": policies.model_dump_json()})
        return {"timestamp": self._now(), "namespaces": cards, "errors": errors}

    async def _topics(self, request: Request) -> dict[str, Any]:
        errors = list[str]()
        brokers = [
            {"broker": _identity(row), "topics": _topic_rows(await self._topics_of(request, row, errors))}
            for row in await self._brokers(request)
        ]
        return {"timestamp": self._now(), "brokers": brokers, "errors": errors}

    async def _topic(self, request: Request) -> dict[str, Any]:
        topic = await self._call(request, DESCRIBE_TOPIC, {"topic": request.path_params["topic"]}, TopicDetail)
        schema = ("schema_subject", "schema_id", "schema_version", "schema_type", "compatibility_mode")
        subscriptions = [
            {"name": state.name, "subscription_type": state.subscription_type, "failure_policy": None}
            for state in topic.subscription_states
        ]
        card = {"name": topic.topic, **{name: getattr(topic, name) for name in schema}, "subscriptions": subscriptions}
        return {"timestamp": self._now(), "topic": card, "metrics": _topic_metrics(topic), "errors": []}

    async def _brokers(self, request: Request) -> list[BrokerRow]:
        return (await self._call(request, LIST_BROKERS, _ALL, BrokerList)).brokers

    async def _topics_of(self, request: Request, row: BrokerRow, errors: list[str]) -> TopicList:
        try:
            arguments = {"broker": row.broker_id, "system": True, "brief": True, **_ALL}
            return await self._call(request, LIST_TOPICS, arguments, TopicList)
        except DanubeError as error:
            errors.append(f"{row.broker_id}: {error}")
            return TopicList(total=0, topics=[], not_answered=[])

    async def _call(self, request: Request, operation: AnyOperation, arguments: Mapping[str, Any], kind: type[R]) -> R:
        result = await self._server.call(person_of(request), operation, arguments)
        if not isinstance(result, kind):
            raise TypeError(f"{operation.name} answered {type(result).__name__}")
        return result

    def _now(self) -> str:
        return datetime.fromtimestamp(self._server.clock.now_ms() / 1_000, UTC).isoformat()


def _as_json(handler: Callable[[Request], Awaitable[dict[str, Any]]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return JSONResponse(await handler(request))

    return answer


def _identity(row: BrokerRow) -> dict[str, str]:
    return {
        "broker_id": row.broker_id,
        "broker_addr": row.broker_addr,
        "broker_role": row.broker_role,
        "broker_status": row.broker_status,
    }


def _stats(topics: int) -> dict[str, int]:
    return {"topics_owned": topics, "rpc_total": 0, "active_connections": 0, "errors_5xx_total": 0}


def _topic_rows(topics: TopicList) -> list[dict[str, Any]]:
    unknown = {"producers_connected": 0, "consumers_connected": 0, "subscriptions": 0}
    return [{"name": row.name, "delivery": row.delivery, **unknown} for row in topics.topics]


def _topic_metrics(topic: TopicDetail) -> dict[str, Any]:
    consumers = sum(state.consumers for state in topic.subscription_states)
    return {
        "core": {
            "msg_in_total": topic.messages_in or 0,
            "msg_out_total": 0,
            "bytes_in_total": topic.bytes_in or 0,
            "bytes_out_total": 0,
        },
        "active": {
            "producers": topic.producers or 0,
            "consumers": consumers,
            "subscriptions": topic.subscription_count,
        },
        "rates": {"publish_rate_1m": 0.0, "dispatch_rate_1m": 0.0},
        "quality": {"send_ok_total": 0, "send_error_total": 0, "send_error_by_code": []},
        "latency_size": {
            "send_latency_ms_p50": 0.0,
            "send_latency_ms_p95": 0.0,
            "send_latency_ms_p99": 0.0,
            "msg_size_bytes_avg": (topic.bytes_in or 0) / topic.messages_in if topic.messages_in else 0.0,
        },
        "reliable": None,
    }
