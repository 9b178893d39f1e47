"""`python -m bench [NAME ...]`: run all benchmarks, or those named, and print each figure with the machine."""

import argparse
import sys
from collections.abc import Callable, Iterator

from bench import admin_start, dispatch, fan_out, journal, machine, mcp, spark, startup, stream, unary, wheel
from bench.result import Figure

BENCHES: dict[str, Callable[[], Iterator[Figure]]] = {
    "startup": startup.run,
    "unary": unary.run,
    "stream": stream.run,
    "fan_out": fan_out.run,
    "spark": spark.run,
    "wheel": wheel.run,
    "journal": journal.run,
    "mcp": mcp.run,
    "admin_start": admin_start.run,
    "dispatch": dispatch.run,
}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []], help="which ones [all]")
    names = parser.parse_args().names or list(BENCHES)
    print(f"machine: {machine.describe()}")
    for name in names:
        print(f"\n{name}", flush=True)
        for figure in BENCHES[name]():
            print(figure, flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
