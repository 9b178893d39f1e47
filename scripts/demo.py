"""The main job, end to end, narrated: publish real records, lose the broker, read every record back; then look after
it: by hand and through an assistant; at last on a cluster of three brokers, with Spark.

A `danube-broker` process and the `danube` command of this project meet the published danube-client in an environment of
its own. Whatever is started is ended, also on failure and on Ctrl-C; with `--keep` the broker stays.
"""

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from danube.model.errors import UnavailableError
from danube.testing.processes.broker import BrokerProcess
from scripts.demo_admin import AdminStory
from scripts.demo_balance import BalanceStory
from scripts.demo_programs import STEP_S_MAX, DemoFailedError, Programs
from scripts.demo_security import DemoSecurity, make_security

_BIN = Path(sys.executable).parent
_WHEEL_SCRIPT = Path(__file__).with_name("demo_wheel_client.py")
Pipe = TypeVar("Pipe", asyncio.StreamReader, asyncio.StreamWriter)

_TOPIC = "/default/airports"
_EXCLUSIVE = ("--sub-type", "exclusive", "--consumer-name", "demo")
"""One reader, which gets everything in order."""
_DEMO_S_MAX = 1_200.0
_IDLE_S = 8.0
"""Nothing came for this long: everything there is has been read. A machine may stand still for a moment."""
_NOTHING_S = 2.0
"""The same where nothing should come."""


def main() -> None:
    """Run the demo; exit 0 when every record came back, 1 when not, 130 when interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel-python", type=Path, required=True, help="Python of the published client's environment")
    parser.add_argument("--keep", action="store_true", help="leave the broker running")
    parser.add_argument("--secure", action="store_true", help="with TLS, tokens, roles, and approval by somebody else")
    options = parser.parse_args()
    started = time.monotonic()
    try:
        asyncio.run(_run(options.wheel_python.absolute(), keep=options.keep, secure=options.secure))
    except (asyncio.CancelledError, KeyboardInterrupt):
        sys.exit(130)
    except (DemoFailedError, TimeoutError) as error:
        sys.exit(f"\nFAILED: {str(error) or 'a step took too long'}")
    _tell(f"Done in {time.monotonic() - started:.0f} s.")


async def _run(wheel_python: Path, *, keep: bool, secure: bool) -> None:
    story = asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, story.cancel if story else sys.exit)
    folder = Path(tempfile.mkdtemp(prefix="danube-demo-"))
    security = make_security(folder) if secure else DemoSecurity()
    programs, of_cluster = Programs(folder, security.person), Programs(folder, {})
    demo = Demo(programs, folder, wheel_python, security)
    kept = False
    try:
        async with asyncio.timeout(_DEMO_S_MAX):
            await demo.tell_the_story()
            await BalanceStory(of_cluster, folder).tell()
        kept = keep
    finally:
        await asyncio.gather(programs.end(), of_cluster.end())
        if not kept:
            demo.broker.kill()
            shutil.rmtree(folder, ignore_errors=True)
    if kept:
        demo.tell_how_to_attach()


class Demo:
    """The story, step by step."""

    def __init__(self, programs: Programs, folder: Path, wheel_python: Path, security: DemoSecurity) -> None:
        self._programs = programs
        self._folder = folder
        self._wheel: list[str | Path] = [wheel_python, "-I", _WHEEL_SCRIPT]
        self._rows: list[bytes] = []
        self._security = security
        self.broker = BrokerProcess(folder / "broker", settings=security.settings)

    async def tell_the_story(self) -> None:
        """Every step in order. Raises DemoFailedError where a promise was not kept."""
        self._start_the_broker()
        await self._look_at_the_client()
        publisher = await self._make_topic()
        await self._subscribe(["cli", "wheel", "yours"])
        await self._publish_through_a_kill(publisher)
        _tell("5/14 Reading everything back, with both readers at once")
        by_cli, by_wheel = await self._read_both(_IDLE_S)
        self._judge("danube consume", by_cli)
        self._judge("danube-client", by_wheel)
        await self._count_unread()
        await AdminStory(self._programs, self.broker, self._security).tell()

    def _start_the_broker(self) -> None:
        startup = self._start_broker()
        at = self.broker.endpoints
        _tell(f"1/14 danube-broker serves clients on {at.broker}, administrators on {at.admin}")
        _tell(f"    (standalone, {startup}, data in {self._folder})")
        if self._security.is_on:
            _tell("    with TLS on both ports, tokens for everybody, and plans that somebody else approves")

    def _start_broker(self) -> str:
        """Start it, wait until it serves, and say how that went."""
        begun = time.monotonic()
        try:
            self.broker.start()
        except UnavailableError as error:
            raise DemoFailedError(str(error)) from None
        return f"pid {self.broker.pid}, up in {time.monotonic() - begun:.1f} s"

    async def _look_at_the_client(self) -> None:
        client, rows = await self._ask_wheel("rows")
        self._rows = _rows(Path(rows["file"]))
        _tell(
            f"2/14 The application: danube-client {client['version']}, unmodified ({client['verified']} files verified)"
        )
        _tell(f"    from {client['file']}")
        _tell(f"    Its records: {rows['count']:,} rows of airports.csv (vega-datasets)")

    async def _make_topic(self) -> Process:
        """Start the publisher, which makes the topic and then waits for our word."""
        arguments = ["publish", "--service-url", self.broker.endpoints.service_url, "--topic", _TOPIC]
        publisher = await self._programs.start("publisher", *self._wheel, *arguments)
        await self._heard(publisher, "topic")
        return publisher

    async def _subscribe(self, names: Sequence[str]) -> None:
        cli, wheel, kept = names
        await self._danube_consume(cli, *_EXCLUSIVE, "--count", "0")
        await self._ask_wheel("subscribe", "--subscription", wheel)
        await self._danube_consume(kept, "--count", "0")
        _tell(f"3/14 Reliable topic {_TOPIC} with the subscriptions {', '.join(names)}")

    async def _publish_through_a_kill(self, publisher: Process) -> None:
        _tell(f"4/14 Publishing {len(self._rows):,} records, one call and one acknowledgement each")
        begun = time.monotonic()
        _pipe(publisher.stdin).write(b"\n")
        while (acknowledged := (await self._heard(publisher, "acknowledged"))["count"]) < len(self._rows) // 2:
            pass
        self.broker.kill()
        _tell(f"    {acknowledged:,} acknowledged: kill -9 of the broker, in the middle of it")
        _tell(f"    Broker started again on the same ports and folder ({self._start_broker()})")
        published = await self._heard(publisher, "published")
        by_whom = f"the script asked again {published['resends']} time(s)" if published["resends"] else "by itself"
        _tell(f"    The publisher went on ({by_whom}): {published['count']:,} acknowledged")
        _tell(f"    in {time.monotonic() - begun:.1f} s, the outage included")

    async def _read_both(self, idle_s: float) -> tuple[list[bytes], list[bytes]]:
        return await asyncio.gather(self._read_with_cli("cli", idle_s), self._read_with_wheel("wheel", idle_s))

    async def _read_with_cli(self, subscription: str, idle_s: float) -> list[bytes]:
        return _lines(
            await self._danube_consume(subscription, *_EXCLUSIVE, "--idle-timeout-s", str(idle_s), "-o", "raw")
        )

    async def _read_with_wheel(self, subscription: str, idle_s: float) -> list[bytes]:
        out = self._folder / "wheel.out"
        idle = ["--idle-timeout-s", str(idle_s)]
        await self._ask_wheel("consume", "--subscription", subscription, "--out", str(out), *idle)
        return _lines(out.read_bytes())

    def _judge(self, reader: str, received: list[bytes]) -> None:
        """At-least-once, in order: every record, byte for byte, none invented; one may come twice."""
        expected, got = Counter(self._rows), Counter(received)
        missing, repeated = expected - got, got - expected
        foreign = [payload for payload in repeated if payload not in expected]
        if missing or foreign:
            raise DemoFailedError(
                f"{reader}: {missing.total():,} records are missing, {len(foreign):,} were never sent"
            )
        if list(dict.fromkeys(received)) != self._rows:
            raise DemoFailedError(f"{reader}: every record is there, but not in the order sent")
        twice = f"{repeated.total():,} of them came once more" if repeated else "none came twice"
        _tell(f"    {reader:<15} {expected.total():,} of {len(self._rows):,} byte for byte, in the order sent; {twice}")

    async def _count_unread(self) -> None:
        by_cli, by_wheel = await self._read_both(_NOTHING_S)
        _tell(f"6/14 Left unread: cli {len(by_cli):,}, wheel {len(by_wheel):,}")
        if by_cli or by_wheel:
            raise DemoFailedError("acknowledged records came again")

    def tell_how_to_attach(self) -> None:
        """Say how to reach the broker that stays, and how to end it."""
        danube = _shown(_BIN / "danube")
        where = f"--service-addr {self.broker.endpoints.service_url} --topic {_TOPIC}"
        _tell(
            "\nThe broker stays. Every record waits unread in the subscription `yours`:\n"
            f"  {danube} consume {where} --subscription yours\n"
            "A new subscription sees what is published from then on:\n"
            f"  {danube} consume {where} --subscription mine\n"
            f"  {danube} produce {where} --message hello\n"
            f"{self._how_to_prove()}"
            "To end the broker and remove its data:\n"
            f"  kill {self.broker.pid} && rm -r {self._folder}\n"
        )

    def _how_to_prove(self) -> str:
        if not self._security.is_on:
            return ""
        return (
            "Callers prove who they are. For an hour:\n"
            f"  export DANUBE_CA_CERT={self._security.person['DANUBE_CA_CERT']}\n"
            f"  export DANUBE_TOKEN=$({_shown(_BIN / 'danube-admin')} security tokens create --subject root --type user"
            f" --ttl 1h --secret-file {self._folder / 'token-secret'})\n"
        )

    async def _danube_consume(self, subscription: str, *arguments: str) -> bytes:
        where = ["--service-addr", self.broker.endpoints.service_url, "--topic", _TOPIC, "--subscription", subscription]
        return await self._programs.run("danube-consume", _BIN / "danube", "consume", *where, *arguments)

    async def _ask_wheel(self, command: str, *arguments: str) -> list[dict[str, Any]]:
        where = ["--service-url", self.broker.endpoints.service_url, "--topic", _TOPIC]
        output = await self._programs.run("danube-client", *self._wheel, command, *where, *arguments)
        return [json.loads(line) for line in output.splitlines()]

    async def _heard(self, publisher: Process, event: str) -> dict[str, Any]:
        """The publisher's next report of this event."""
        reports = _pipe(publisher.stdout)
        async with asyncio.timeout(STEP_S_MAX):
            while line := await reports.readline():
                said: dict[str, Any] = json.loads(line)
                if said["event"] == event:
                    return said
        raise self._programs.failure("publisher", f"ended before `{event}`")


def _pipe(end: Pipe | None) -> Pipe:
    if end is None:
        raise DemoFailedError("a program was started without the pipes that it needs")
    return end


def _rows(file: Path) -> list[bytes]:
    """The records as the publisher takes them from the same file: every line but the header."""
    return _lines(file.read_bytes())[1:]


def _lines(output: bytes) -> list[bytes]:
    return output.split(b"\n")[:-1]


def _shown(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
