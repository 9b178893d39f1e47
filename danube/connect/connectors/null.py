"""The null sink: reads and forgets, for measurements."""

from danube.connect.batch import Batch
from danube.connect.sdk import Sink, sink


@sink
class NullSink(Sink[bytes]):
    """Forgets each batch."""

    async def write(self, batch: Batch[bytes]) -> None:
        del batch
