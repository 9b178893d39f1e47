"""The contract suite of connectors: ours pass it, and users' own can.

```python
@pytest.mark.parametrize("case", SINK_CASES, ids=str)
async def test_my_sink_keeps_the_contract(case: Case[SinkSide], tmp_path: Path) -> None:
    await case.run(MySide(), tmp_path)
```
"""

from danube.testing.connect.sides import SinkSide, SourceSide
from danube.testing.connect.sink_cases import SINK_CASES, SINK_KILLS
from danube.testing.connect.source_cases import SOURCE_CASES, SOURCE_KILLS
from danube.testing.connect.workbench import Case

__all__ = [
    "SINK_CASES",
    "SINK_KILLS",
    "SOURCE_CASES",
    "SOURCE_KILLS",
    "Case",
    "SinkSide",
    "SourceSide",
]
