"""The data folder of a broker of the first version, which was killed: it opens, and what was unread is delivered.

The folder `first_broker` was left by the broker of commit e842d94 with its default settings, ended with SIGKILL: topic
`/default/orders` with 20 messages, of which its subscription `billing` had acknowledged the first 5. The metadata's
write-ahead log was folded into its file. It is never made again.
"""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from danube.client import DanubeClientBuilder, SubType
from danube.model.errors import UnavailableError
from danube.storage.journal.format import MARK_NAME, decode_mark
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess

FOLDER = Path(__file__).parent / "first_broker"

pytestmark = pytest.mark.cluster


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "data"))
    with BrokerProcess(folder, settings={"telemetry_interval_s": 0}) as process:
        yield process


async def received(service_url: str, count: int) -> list[bytes]:
    async with await DanubeClientBuilder().service_url(service_url).build() as client:
        builder = client.new_consumer().with_topic("/default/orders").with_consumer_name("c")
        consumer = builder.with_subscription("billing").with_subscription_type(SubType.EXCLUSIVE).build()
        await consumer.subscribe()
        queue = await consumer.receive()
        found: list[bytes] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < count:
                message = await queue.get()
                await consumer.ack(message)
                found.append(message.payload)
        return found


def test_folder_of_the_first_version_opens_and_delivers_what_was_unread(broker: BrokerProcess) -> None:
    found = asyncio.run(received(broker.endpoints.service_url, 15))
    assert found == [b"order %d" % number for number in range(5, 20)]


def test_folder_of_the_first_version_is_one_of_this_version_from_its_first_start_on(broker: BrokerProcess) -> None:
    broker.kill()
    journal = broker.data_dir / "journal"
    assert decode_mark((journal / MARK_NAME).read_bytes()) is not None
    shutil.rmtree(journal)
    with pytest.raises(UnavailableError, match=r"journal/ is damaged: the folder is missing"):
        broker.start()
