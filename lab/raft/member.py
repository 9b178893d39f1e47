"""A member of a Raft group in a process of its own, to be killed: a replicated store that is served over lines.

    python -m lab.raft.member --data-dir DIR --bind 127.0.0.1:7650 --seed ... --secret-file FILE

The lines are those of `lab.metadata.wire`, and beside the store's methods there are `status`, `look`,
`add`, `promote`, `remove` and `transfer`. It says that it is open once it has read its log and listens, and that it
serves once it has found a majority.
"""

import argparse
import asyncio
import logging
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from danube.metadata.cluster.membership import Member, MembershipStatus
from danube.metadata.raft.sequencer import RaftSequencer
from danube.metadata.raft.settings import LogBounds, RaftSettings, RaftTiming
from danube.metadata.replication.replicated import ReplicatedStore
from danube.model.errors import DanubeError
from danube.model.limits.metadata import RAFT_LOG_ENTRIES_MAX
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from lab.metadata.wire import OPEN, Method, encode, serve


def plain_status(status: MembershipStatus) -> dict[str, Any]:
    """A status as JSON has it."""
    return asdict(status) | {"members": [plain_member(member) for member in status.members]}


def plain_member(member: Member) -> dict[str, Any]:
    """A member as JSON has it."""
    return asdict(member) | {"role": member.role.value}


def methods(sequencer: RaftSequencer) -> dict[str, Method]:
    """What can be asked beside the store's methods."""

    async def status() -> Any:  # noqa: ANN401 - plain data
        return plain_status(sequencer.status())

    async def look() -> Any:  # noqa: ANN401 - plain data
        return plain_status(await sequencer.look())

    async def add(address: str, node_id: int | None = None) -> Any:  # noqa: ANN401 - plain data
        return plain_member(await sequencer.add(address, node_id))

    async def promote(node_id: int) -> Any:  # noqa: ANN401 - plain data
        return plain_member(await sequencer.promote(node_id))

    return {
        "status": status,
        "look": look,
        "add": add,
        "promote": promote,
        "remove": sequencer.remove,
        "transfer": sequencer.transfer,
    }


def _settings(arguments: argparse.Namespace) -> RaftSettings:
    scale: float = arguments.time_scale
    timing = RaftTiming()
    return RaftSettings(
        bind=arguments.bind,
        advertised=arguments.advertised,
        secret=Path(arguments.secret_file).read_bytes().strip() if arguments.secret_file else None,
        seeds=tuple(arguments.seed),
        join=arguments.join,
        timing=RaftTiming(
            election_min_s=timing.election_min_s * scale,
            election_max_s=timing.election_max_s * scale,
            heartbeat_s=timing.heartbeat_s * scale,
            fallback_s=timing.fallback_s * scale,
        ),
        log=LogBounds(entries_max=arguments.log_entries),
        start_timeout_s=arguments.start_timeout,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="raft_member")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--bind", default="127.0.0.1:0")
    parser.add_argument("--advertised", default="")
    parser.add_argument("--seed", action="append", default=[])
    parser.add_argument("--secret-file")
    parser.add_argument("--join", action="store_true")
    parser.add_argument("--time-scale", type=float, default=1.0)
    parser.add_argument("--log-entries", type=int, default=RAFT_LOG_ENTRIES_MAX)
    parser.add_argument("--start-timeout", type=float, default=120.0)
    return parser


async def _run(arguments: argparse.Namespace) -> int:
    Path(arguments.data_dir).mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - nothing runs yet
    clock, rng = SystemClock(), SystemRng()
    disk = LocalDisk(Path(arguments.data_dir))
    try:
        sequencer = await RaftSequencer.open(_settings(arguments), disk, clock, rng)
        sys.stdout.buffer.write(encode([OPEN, "ok", None]))
        sys.stdout.buffer.flush()
        store = ReplicatedStore(sequencer, clock, rng)
        await store.start()
    except DanubeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    try:
        await serve(store, methods(sequencer))
    finally:
        await store.close()
    return 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    raise SystemExit(asyncio.run(_run(_parser().parse_args())))
