"""A connector, as its runner told of it."""

from danube.model.records.connectors import ConnectorTask, RunnerReport, Status

SEEDED_RUNNER = RunnerReport(
    runner="etl-1",
    tasks=(
        ConnectorTask(
            connector="orders-out",
            kind="webhook_out",
            direction="sink",
            delivery="at least once",
            task="/default/orders",
            topic="/default/orders",
            subscription="orders-out",
            status=Status.RETRYING,
            reason="https://example.org answered 503",
            since_ms=1_750_000_000_000,
            restarts=3,
            written=120,
            dead=2,
            position="120",
        ),
    ),
)
