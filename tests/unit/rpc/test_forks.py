"""Children of a process that speaks gRPC: they get as far as the program they were forked for."""

import subprocess
import sys

from danube.testing.patience import PATIENCE_S

CHILDREN = 100
FORKS_WHILE_CALLS_ARE_UNDER_WAY = f"""
import asyncio, contextlib, os, subprocess, sys
from collections import Counter
from danube.rpc.grpc.carrier import GrpcCarrier
import grpc
from grpc import aio

async def call(channel):
    while True:
        with contextlib.suppress(grpc.RpcError):
            await channel.unary_unary("/nobody/answers")(b"")

def forked():  # a child with something to do first is forked, and Spark's JVM is one
    return subprocess.run([sys.executable, "-S", "-c", ""], preexec_fn=os.getpid, check=False).returncode

async def main():
    server = aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{{port}}") as channel:
        calls = [asyncio.create_task(call(channel)) for _ in range(4)]
        print(dict(Counter([await asyncio.to_thread(forked) for _ in range({CHILDREN})])))
        for task in calls:
            task.cancel()
        await asyncio.wait(calls)
    await server.stop(None)

asyncio.run(main())
"""


def test_children_forked_while_calls_are_under_way_run_their_program() -> None:
    program = [sys.executable, "-W", "ignore", "-c", FORKS_WHILE_CALLS_ARE_UNDER_WAY]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.stdout == f"{{0: {CHILDREN}}}\n", ran.stderr[-3_000:]
