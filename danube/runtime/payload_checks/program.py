"""Program of the process that checks payloads: it limits itself, then answers one request after the other.

A check that takes too long ends it by the signal of its timer, also within a library; the broker starts it anew.
"""

import json
import resource
import signal
import sys
from multiprocessing.connection import Connection

from danube.model.limits.schema import SCHEMA_CHECK_CPU_S, SCHEMA_CHECK_MEMORY_BYTES
from danube.schema.validation import Validator, judge


def main() -> None:
    """Answer requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_AS, (SCHEMA_CHECK_MEMORY_BYTES, SCHEMA_CHECK_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection = Connection(int(sys.argv[1]))
    connection.send_bytes(b"ready")
    validators: dict[int, Validator] = {}
    while True:
        try:
            number, forget, given, payloads, with_reason = connection.recv()
        except EOFError:
            return
        if forget:
            validators.clear()
        checks = validators.setdefault(number, given)
        signal.setitimer(signal.ITIMER_PROF, SCHEMA_CHECK_CPU_S)
        found = judge(checks, payloads, with_reason=with_reason)
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send_bytes(json.dumps(found).encode())


if __name__ == "__main__":
    main()
