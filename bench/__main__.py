"""`python -m bench [NAME ...]`: run all benchmarks, or those named, and print each figure with the machine.

With --quick, those that have a small size run with it, in seconds: to see that they work. Their figures say nothing.
"""

import argparse
import sys
from collections.abc import Callable, Iterator

from bench import (
    admin_start,
    balance,
    cold_reader,
    dispatch,
    fan_out,
    history,
    machine,
    mcp,
    memory,
    metadata,
    moves,
    object_store,
    peers,
    schema,
    schema_registry,
    security,
    spark,
    spark_peers,
    startup,
    storage,
    stream,
    unary,
    wheel,
)
from bench.result import Figure

BENCHES: dict[str, Callable[[], Iterator[Figure]]] = {
    "startup": startup.run,
    "unary": unary.run,
    "stream": stream.run,
    "fan_out": fan_out.run,
    "spark": spark.run,
    "spark_peers": spark_peers.run,
    "history": history.run,
    "wheel": wheel.run,
    "storage": storage.run,
    "cold_reader": cold_reader.run,
    "metadata": metadata.run,
    "mcp": mcp.run,
    "admin_start": admin_start.run,
    "dispatch": dispatch.run,
    "moves": moves.run,
    "schema": schema.run,
    "balance": balance.run,
    "schema_registry": schema_registry.run,
    "object_store": object_store.run,
    "peers": peers.run,
    "security": security.run,
    "memory": memory.run,
}
QUICK: dict[str, Callable[[], Iterator[Figure]]] = {
    "storage": storage.run_quick,
    "cold_reader": cold_reader.run_quick,
    "metadata": metadata.run_quick,
    "moves": moves.run_quick,
    "schema": schema.run_quick,
    "balance": balance.run_quick,
    "object_store": object_store.run_quick,
    "peers": peers.run_quick,
    "history": history.run_quick,
    "security": security.run_quick,
    "memory": memory.run_quick,
}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones of {', '.join(BENCHES)} [all]")
    parser.add_argument("--quick", action="store_true", help=f"only see that they work; for {', '.join(QUICK)}")
    wanted = parser.parse_args()
    benches = QUICK if wanted.quick else BENCHES
    names = wanted.names or list(benches)
    if unknown := [name for name in names if name not in benches]:
        parser.error(f"there is no {unknown[0]}{' with --quick' * wanted.quick}: take {', '.join(benches)}")
    print(f"machine: {machine.describe()}")
    for name in names:
        print(f"\n{name}", flush=True)
        for figure in benches[name]():
            print(figure, flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
