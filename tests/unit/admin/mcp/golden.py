"""Write the golden files of the tools: `python -m tests.unit.admin.mcp.golden`, then look at the difference."""

from tests.unit.admin.golden_json import golden_json
from tests.unit.admin.mcp.test_tools import EVERY, GOLDEN

if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for path in GOLDEN.glob("*.json"):
        path.unlink()
    for tool in EVERY:
        (GOLDEN / f"{tool['name']}.json").write_text(f"{golden_json(tool)}\n")
