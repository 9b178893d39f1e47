"""Writes the records of telemetry version 1 beside this module: `python -m tests.golden.telemetry.make`.

Run it for a new version only, into a new folder: files of a version that was released are never written again.
"""

from pathlib import Path

from danube.model.records.telemetry import (
    BrokerReading,
    Reading,
    Stamp,
    SubscriptionReading,
    TopicReading,
    encode_record,
)

FILE = Path(__file__).parent / "v1" / "records.jsonl"
_AT_MS = 1_750_000_000_123

ORDERS = TopicReading(
    topic="/default/orders-part-1",
    topic_id="12",
    strategy="reliable",
    partition_base="/default/orders",
    partition_index=1,
    messages_in=40,
    bytes_in=4_096,
    producers=2,
    subscriptions=1,
    consumers=3,
    start_offset=10,
    head=120,
    start_append_ms=1_749_999_000_000,
    head_append_ms=1_750_000_000_100,
    log_bytes=16_384,
)
PRICES = TopicReading(
    topic="/default/prices",
    topic_id="13",
    strategy="non_reliable",
    partition_base=None,
    partition_index=None,
    messages_in=7,
    bytes_in=70,
    producers=1,
    subscriptions=1,
    consumers=0,
)
BILLING = SubscriptionReading(
    topic="/default/orders-part-1",
    topic_id="12",
    subscription='größte "Rechnung"',
    subscription_id="9007199254740993",
    type="shared",
    consumers=3,
    consumers_known=4,
    messages_out=100,
    start_offset=10,
    head=120,
    position=90,
    acknowledged_beyond=5,
    lag_messages=25,
    in_flight=20,
    waiting=2,
    ready=1,
    redelivered=6,
    nacked=3,
    oldest_unread_append_ms=1_749_999_900_000,
    head_append_ms=1_750_000_000_100,
)
SCREENS = SubscriptionReading(
    topic="/default/prices",
    topic_id="13",
    subscription="screens",
    subscription_id="902",
    type="exclusive",
    consumers=0,
    consumers_known=1,
    messages_out=5,
    dropped=2,
)
BROKER = BrokerReading(
    broker_version="0.1.0",
    uptime_s=61.5,
    topics=3,
    subscriptions=2,
    producers=3,
    consumers=3,
    cpu_s=4.125,
    rss_bytes=73_400_320,
    journal_rounds=55,
    journal_failed_rounds=1,
    journal_bytes_written=20_480,
    journal_size_bytes=1_048_576,
    journal_backlog_bytes=512,
    journal_last_round_ms=1.75,
    journal_stopped=False,
)
READINGS: list[tuple[Reading, bool, bool]] = [
    (ORDERS, True, False),
    (BILLING, True, False),
    (PRICES, False, False),
    (SCREENS, False, True),
    (BROKER, True, False),
]


def records() -> list[tuple[Stamp, Reading]]:
    """One batch: of every kind, full or not, gone or not."""
    return [
        (
            Stamp(
                broker_id="4396499729479494592",
                start_id="6786687343642012229",
                sequence=17 + number,
                at_ms=_AT_MS,
                full=full,
                gone=gone,
            ),
            reading,
        )
        for number, (reading, full, gone) in enumerate(READINGS)
    ]


def lines() -> bytes:
    return b"".join(encode_record(stamp, reading) + b"\n" for stamp, reading in records())


def main() -> None:
    """Write them."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_bytes(lines())


if __name__ == "__main__":
    main()
