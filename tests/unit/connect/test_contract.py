from pathlib import Path

import pytest

from danube.testing.connect import SINK_CASES, SOURCE_CASES, Case, SinkSide, SourceSide
from tests.unit.connect.memory import MemoryExactSink, MemorySide, MemorySink, MemorySource


@pytest.mark.parametrize("kind", [MemorySink, MemoryExactSink])
@pytest.mark.parametrize("case", SINK_CASES, ids=str)
async def test_a_sink_keeps_the_contract(case: Case[SinkSide], kind: type[MemorySink], tmp_path: Path) -> None:
    await case.run(MemorySide(kind), tmp_path)


@pytest.mark.parametrize("case", SOURCE_CASES, ids=str)
async def test_a_source_keeps_the_contract(case: Case[SourceSide], tmp_path: Path) -> None:
    await case.run(MemorySide(MemorySource), tmp_path)
