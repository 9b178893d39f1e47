"""Calls about the balance of load: to our brokers, any of which knows it, and to the original's leader."""

from abc import abstractmethod
from collections.abc import Sequence

from danube.admin.grpc_gateway.broker_connection import Answer, ConnectionPool, Request
from danube.admin.grpc_gateway.calls import BROKERS, AdminCalls
from danube.model.calls.balance import (
    AutomaticBalance,
    BalanceRule,
    CancelRebalance,
    ClearRule,
    ClusterBalance,
    Rebalance,
    RebalancePreview,
    RebalanceWish,
    SetAutomatic,
)
from danube.model.topic import TopicName
from danube.wire import admin_messages, plan_messages
from danube.wire.codec import Codec

_BALANCE = "/danube.control.Balance"


class BalanceCalls:
    """The calls of `AdminGateway` about balance."""

    _pool: ConnectionPool
    _calls: AdminCalls

    @abstractmethod
    async def _is_ours(self) -> bool: ...

    @abstractmethod
    async def _ours(
        self,
        act: str,
        path: str,
        request: Codec[Request],
        value: Request,
        answer: Codec[Answer],
        *,
        at: TopicName | None = None,
    ) -> Answer: ...

    async def cluster_balance(self) -> ClusterBalance:
        if await self._is_ours():
            answer = plan_messages.CLUSTER_BALANCE
            return await self._balance("tell loads", "GetBalance", plan_messages.BALANCE, None, answer)
        leader = await self._calls.ask(f"{BROKERS}/GetLeaderBroker", admin_messages.EMPTY, None, admin_messages.LEADER)
        urls = {info.broker_id: info.admin_url for info in await self._calls.running()}
        url = urls.get(leader or "")
        broker = self._pool.to(url) if url else self._pool.endpoint
        path = f"{BROKERS}/GetClusterBalance"
        return await broker.ask(path, admin_messages.CLUSTER_BALANCE_OF, None, admin_messages.CLUSTER_BALANCE)

    async def preview_rebalance(self, wish: RebalanceWish) -> RebalancePreview:
        request, answer = plan_messages.REBALANCE_WISH, plan_messages.REBALANCE_PREVIEW
        return await self._balance("plan rebalances", "PreviewRebalance", request, wish, answer)

    async def rebalances(self, plan_id: str = "") -> Sequence[Rebalance]:
        request, answer = plan_messages.LIST_REBALANCES, plan_messages.REBALANCES
        return await self._balance("keep a history of rebalances", "ListRebalances", request, plan_id, answer)

    async def cancel_rebalance(self, wanted: CancelRebalance) -> Rebalance | None:
        request, answer = plan_messages.CANCEL_REBALANCE, plan_messages.REBALANCE_CANCELLED
        return await self._balance("cancel rebalances", "CancelRebalance", request, wanted, answer)

    async def set_balance_rule(self, rule: BalanceRule) -> Sequence[BalanceRule]:
        act = "pin topics or exclude brokers while it runs"
        return await self._balance(act, "SetRule", plan_messages.SET_RULE, rule, plan_messages.RULES)

    async def clear_balance_rule(self, wanted: ClearRule) -> Sequence[BalanceRule]:
        act = "pin topics or exclude brokers while it runs"
        return await self._balance(act, "ClearRule", plan_messages.CLEAR_RULE, wanted, plan_messages.RULES)

    async def set_automatic_balance(self, wanted: SetAutomatic) -> AutomaticBalance:
        request, answer = plan_messages.SET_AUTOMATIC, plan_messages.AUTOMATIC
        return await self._balance("change its automatic mode while it runs", "SetAutomatic", request, wanted, answer)

    async def _balance(
        self, act: str, method: str, request: Codec[Request], value: Request, answer: Codec[Answer]
    ) -> Answer:
        return await self._ours(act, f"{_BALANCE}/{method}", request, value, answer)
