"""Hooks of a broker with a disk of its own: `carry` before it ends, `activate` after it has begun.

`carry` has the other brokers take over its topics, logs and all, within DANUBE_HOOK_SECONDS; `activate` ends that. It
needs python3 and danube-admin, and no shell. When the time is up, `carry` fails, which Kubernetes tells in the pod's
events; the broker ends all the same, and topics that were not carried wait for it. `activate` never fails: that would
end the broker, which serves.
"""

import json
import os
import subprocess
import sys
import time

ADMIN = ("danube-admin", "--yes", "--timeout-s", "10", "-o", "json")
LOOK_S = 0.5


def admin(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run danube-admin, which is told by variables where the cluster is."""
    return subprocess.run((*ADMIN, *words), capture_output=True, text=True, check=False)  # noqa: S603 - our own words


def state(own: str) -> "tuple[str, str]":
    """Id and status of this broker in the list of the cluster; empty while it is not in it."""
    told = admin("brokers", "list")
    rows = json.loads(told.stdout) if told.returncode == 0 else []
    return next(((row["broker_id"], row["broker_status"]) for row in rows if own in row["broker_addr"]), ("", ""))


def main(hook: str) -> int:
    """Run one hook; answers its exit code."""
    own = os.environ["DANUBE_ADVERTISED_ADDR"]
    deadline_s = time.monotonic() + float(os.environ.get("DANUBE_HOOK_SECONDS", "60"))
    words = {"carry": ("unload", "--max-parallel", "8"), "activate": ("activate",)}[hook]
    reached = {"carry": {"drained"}, "activate": {"active"}}[hook]
    told = None
    while time.monotonic() < deadline_s:
        broker_id, now = state(own)
        if now in reached:
            return 0
        if now and now != "draining":
            told = admin("brokers", *words, "--broker-id", broker_id)
        time.sleep(LOOK_S)
    sys.stderr.write(f"{own}: {hook} is not done in time. {told.stderr if told else ''}\n")
    return 1 if hook == "carry" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
