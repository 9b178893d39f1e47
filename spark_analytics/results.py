"""Calls of a job to the cluster besides reading: check that it publishes telemetry, and publish the result.

Through the ordinary client, connected anew for each of these moments: while Spark works nothing here runs, and a
connection would be missed. The records are those of `danube/model/records/analytics.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from danube.model.errors import TopicNotFoundError, UnavailableError, UnsupportedError
from danube.model.limits.faces import CLI_CONNECT_TIMEOUT_S, CLI_RETRY_TOTAL_S
from danube.model.records.analytics import ANALYTICS_TOPIC, RunRecord, encode_record
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.topic import DispatchStrategy

if TYPE_CHECKING:
    from danube.client import DanubeClient

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Address of the cluster, and the caller's credentials."""

    service_url: str
    ca_cert: Path | None = None
    token: str | None = field(default=None, repr=False)

    def check_telemetry(self) -> list[str]:
        """Raise a DanubeError that says what to do unless the cluster answers and publishes telemetry.

        Answers the partitions of it that cannot be read now: their brokers do not run.
        """
        return asyncio.run(self.with_client(self._check))

    def publish(self, records: Sequence[RunRecord], producer_name: str) -> None:
        """Store the records, in this order and behind one another. Raises DanubeError."""
        from danube.client import ProducerOptions  # noqa: PLC0415 - `--help` needs no gRPC

        async def publish(client: "DanubeClient") -> None:
            builder = client.new_producer().with_topic(str(ANALYTICS_TOPIC)).with_name(producer_name)
            options = ProducerOptions(connect_total_s=CLI_CONNECT_TIMEOUT_S, retry_total_s=CLI_RETRY_TOTAL_S)
            async with (
                builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).with_options(options).build() as producer
            ):
                await producer.send_many(map(encode_record, records), in_flight_max=1)

        asyncio.run(self.with_client(publish))

    def telemetry_options(self) -> dict[str, str]:
        """Options with which the data source `danube` reads the telemetry of this cluster."""
        given = {"service_url": self.service_url, "ca_cert": self.ca_cert, "token": self.token}
        there = {name: str(value) for name, value in given.items() if value is not None}
        return {**there, "topic": str(TELEMETRY_TOPIC), "columns": "value", "skip_unreachable": "true"}

    async def _check(self, client: "DanubeClient") -> list[str]:
        unread: dict[str, UnavailableError] = {}
        try:
            names = await client.partitions(str(TELEMETRY_TOPIC)) or (str(TELEMETRY_TOPIC),)
            for name in names:  # in a cluster each broker has its own
                try:
                    await client.bounds(name)
                except UnavailableError as error:
                    unread[name] = error
        except (TopicNotFoundError, UnsupportedError) as error:
            raise UnsupportedError(
                f"the cluster at {self.service_url} publishes no telemetry, so there is nothing to judge lag from: it"
                " takes our brokers, with telemetry_interval_s above 0"
            ) from error
        if len(unread) == len(names):
            raise unread[names[0]]
        return list(unread)

    async def with_client(self, work: Callable[["DanubeClient"], Awaitable[T]]) -> T:
        from danube.client import DanubeClientBuilder  # noqa: PLC0415 - as above

        builder = DanubeClientBuilder().service_url(self.service_url)
        if self.ca_cert is not None:
            builder = builder.with_tls(str(self.ca_cert))
        if self.token:
            builder = builder.with_token(self.token)
        async with await builder.build() as client:
            return await work(client)
