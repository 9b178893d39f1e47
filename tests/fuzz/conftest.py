"""A broker that is judged: whatever its log says of a failure fails the test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fuzz.judge import Judge, judged_broker


@pytest.fixture
async def judge(tmp_path: Path) -> AsyncIterator[Judge]:
    async with judged_broker(tmp_path / "data") as judge:
        yield judge
        await judge.check_neighbour()
        assert judge.log.failures == []
