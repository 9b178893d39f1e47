"""The table of docs/lag.md, from the command line: plays the situations at rest, which takes half a minute.

python -m lab.lag            # prints it
python -m lab.lag --write    # puts it into docs/lag.md
"""

import argparse
import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.lag.course import play
from lab.lag.courses import COURSES
from lab.lag.table import table_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "lag.md"
BEGIN, END = "<!-- python -m lab.lag --write -->", "<!-- end -->"


def main() -> int:
    """Print the table, or write it; answers the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="into docs/lag.md")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        table = table_of(asyncio.run(play(Path(folder), COURSES["at rest"])))
    if options.write:
        text = DOCUMENT.read_text(encoding="utf-8")
        begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
        DOCUMENT.write_text(f"{text[:begin]}\n\n{table}\n{text[end:]}", encoding="utf-8")
    else:
        sys.stdout.write(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
