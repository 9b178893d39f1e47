from pathlib import Path

import pytest

from danube.testing.connect import (
    SINK_CASES,
    SOURCE_CASES,
    MemoryExactSink,
    MemorySide,
    MemorySink,
    MemorySource,
    SinkCase,
    SourceCase,
)


@pytest.mark.parametrize("kind", [MemorySink, MemoryExactSink])
@pytest.mark.parametrize("case", SINK_CASES, ids=str)
async def test_a_sink_keeps_the_contract(case: SinkCase, kind: type[MemorySink], tmp_path: Path) -> None:
    await case.run(MemorySide(kind), tmp_path)


@pytest.mark.parametrize("case", SOURCE_CASES, ids=str)
async def test_a_source_keeps_the_contract(case: SourceCase, tmp_path: Path) -> None:
    await case.run(MemorySide(MemorySource), tmp_path)
