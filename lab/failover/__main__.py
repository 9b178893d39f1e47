"""The rounds, from the command line.

    python -m lab.failover --rounds 10 --folder .failover --wheel-python .venvs/danube-client/bin/python
    python -m lab.failover --rounds 5 --folder .failover-objects --objects --faults 'owner killed'

The folder holds the brokers' data and a ledger with a line for each round. Run again, it goes on where it stopped. Exit
codes: 0 every promise was kept, in all rounds of the ledger; 1 one was not; 130 interrupted.
"""

import sys
from pathlib import Path

from danube.testing.processes.object_server import MotoServer
from lab.failover.course import FaultKind
from lab.failover.rounds import FailoverRounds
from lab.kernel.rounds import parser_of, run_soak


def main() -> int:
    """Run the rounds; answers the exit code."""
    parser = parser_of(__doc__, folder=".failover")
    parser.add_argument("--wheel-python", type=Path, help="interpreter with the published danube-client [not used]")
    parser.add_argument("--objects", action="store_true", help="messages in a bucket of moto's, in memory")
    parser.add_argument("--faults", nargs="+", type=FaultKind, default=[*FaultKind], help="of a round [all]")
    options = parser.parse_args()

    def rounds() -> FailoverRounds:
        objects = MotoServer(options.folder.absolute() / "moto") if options.objects else None
        return FailoverRounds(options.folder, options.wheel_python, objects=objects, kinds=options.faults)

    return run_soak(rounds, options.rounds, options.seed)


if __name__ == "__main__":
    sys.exit(main())
