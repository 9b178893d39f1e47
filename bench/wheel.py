"""End to end with the published `danube-client`: one process produces, another reads and acknowledges."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.result import Figure
from danube.testing.processes.broker import BrokerProcess

WHEEL_PYTHON = Path(__file__).parents[1] / ".venvs" / "danube-client" / "bin" / "python"
PROGRAM = Path(__file__).with_name("wheel_program.py")
MESSAGES = 6_000
IN_FLIGHT = (1, 16, 64)


def run() -> Iterator[Figure]:
    """Produce with a few sends in flight while an Exclusive consumer acknowledges each message."""
    for in_flight in IN_FLIGHT:
        with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "data") as broker:
            before_s = broker.cpu_s()
            result = _run(broker.endpoints.service_url, in_flight)
            cpu_us = (broker.cpu_s() - before_s) / MESSAGES * 1e6
        name = f"danube-client 0.5.0, reliable, 1 KiB, {in_flight} in flight"
        yield Figure(f"{name}: sent", MESSAGES / result["sent_s"], "msg/s")
        yield Figure(f"{name}: read and acked", MESSAGES / result["read_s"], "msg/s", f"broker {cpu_us:.0f} us/msg")


def _run(url: str, in_flight: int) -> dict[str, float]:
    command = [str(WHEEL_PYTHON), "-I", str(PROGRAM)]
    arguments = [url, str(MESSAGES), str(in_flight)]
    reader = subprocess.Popen([*command, "read", *arguments], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    reader.stdout.readline()  # it has subscribed
    sender = subprocess.run([*command, "send", *arguments], capture_output=True, text=True, check=True, timeout=300)
    read_s = json.loads(reader.stdout.readline())
    reader.communicate(timeout=60)
    return {"sent_s": json.loads(sender.stdout), "read_s": read_s}
