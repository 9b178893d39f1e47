"""`danube-admin`, as a person would run it: on the PATH, and at the broker of DANUBE_ADMIN_ENDPOINT."""

import asyncio
import json
import os
from asyncio.subprocess import PIPE
from collections.abc import Mapping

from tests.cluster.wheel.scene import WAIT_S

POISON_SENDS = 2
"""How often a message is sent under `set_policy`: once, and one redelivery."""


def surroundings(bin_folder: str, admin_url: str) -> dict[str, str]:
    """The variables that make `danube-admin` of this folder work at this broker."""
    return {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "DANUBE_ADMIN_ENDPOINT": admin_url}


async def administer(*words: str) -> str:
    """What it answers on stdout. It must succeed."""
    async with asyncio.timeout(WAIT_S):
        process = await asyncio.create_subprocess_exec("danube-admin", *words, stdout=PIPE, stderr=PIPE)
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return out.decode()


async def set_policy(topic: str, poison: str, *more: str, ack_timeout_ms: int = 30_000) -> None:
    """Of the subscription `s`."""
    delays = ("--base-redelivery-delay-ms", "10", "--max-redelivery-delay-ms", "50")
    rules = ("--max-redelivery-count", str(POISON_SENDS - 1), "--ack-timeout-ms", str(ack_timeout_ms))
    command = ("set-drop-policy", "--yes") if poison == "drop" else ("set-failure-policy", "--poison-policy", poison)
    await administer("topics", command[0], topic, "-s", "s", *rules, *delays, *command[1:], *more)


async def retry_blocked(topic: str) -> int:
    """Send again what blocks the subscription `s`, if anything does; answers its position."""
    position = json.loads(await administer("topics", "retry-blocked", topic, "-s", "s", "-o", "json"))["position"]
    assert isinstance(position, int)
    return position


def check_origin(attributes: Mapping[str, str], topic: str, offset: int) -> None:
    """A dead letter says where it comes from and why, beside what its producer said."""
    origin = dict(attributes)
    assert int(origin.pop("x-original-producer-id")) > 0
    assert origin.pop("x-original-broker-addr").startswith("http://")
    assert origin == {
        "x-original-topic": topic,
        "x-original-subscription": "s",
        "x-original-topic-offset": str(offset),
        "x-poison-policy": "dead_letter",
        "x-delivery-attempt": str(POISON_SENDS),
        "x-failure-reason": "cannot be read",
        "colour": "red",
    }
