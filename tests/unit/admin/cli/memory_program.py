"""`danube-admin` on a seeded cluster in memory, as a process: a pipe and a terminal can be put around it.

The first argument is a file, to which the topics that are left and the state of the seeded plan are written at the end.
"""

import fcntl
import json
import os
import signal
import sys
import termios
import threading
from pathlib import Path

from danube.admin.__main__ import app
from danube.runtime.clock import SystemClock
from tests.faces.memory_gateway import connect_to
from tests.faces.seeded import PLAN_ID, seeded_gateway

SIGNALS_ELSEWHERE = "SIGNALS_ELSEWHERE"
"""Set: another thread gets signals, so that none interrupts a read of the main thread, as one just before it."""


def main() -> None:
    if os.isatty(0) and os.getsid(0) == os.getpid():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C arrives
    if SIGNALS_ELSEWHERE in os.environ:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    gateway = seeded_gateway(SystemClock())
    try:
        app(connect_to(gateway))(args=sys.argv[2:], prog_name="danube-admin")
    finally:
        left = {
            "topics": sorted(map(str, gateway.cluster.topics)),
            "approval": gateway.stored_plans[PLAN_ID].approval,
            "outcomes": [record.entry.outcome for record in gateway.audit_records],
        }
        Path(sys.argv[1]).write_text(json.dumps(left))


if __name__ == "__main__":
    main()
