"""Short names of brokers and members of the Raft group: people read and type `host:port`, programs ids.

An id is a random number of 64 bits: one that was seen once belongs to one broker, in whatever cluster, so the names
that this process has learnt hold for all of them. What two have in common is no name.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from danube.admin.gateway import AdminGateway
from danube.admin.operations.fields import Params, field_specs
from danube.model.address import host_and_port
from danube.model.calls.admin import UNREACHABLE, BrokerInfo, ClusterMember
from danube.model.errors import DanubeError, NotFoundError, SettingsError
from danube.model.limits.faces import BROKER_NAMES_MAX

P = TypeVar("P", bound=Params)

_ID = re.compile(r"(?<![\w.])\d{16,20}(?!\w)")
_NAMES: dict[str, str] = {}
_AS_IDS: ContextVar[bool] = ContextVar("as_ids", default=False)
BROKER, NODE = "broker", "node"
"""Kinds of `Completes` whose values have names."""


def learn_brokers(brokers: Sequence[BrokerInfo]) -> None:
    """Remember the names of all brokers of a cluster; one that is gone gives its address to its successor."""
    running = [each for each in brokers if each.status != UNREACHABLE]
    taken = {_address(each.broker_url) for each in running}
    gone = [each for each in brokers if each not in running and _address(each.broker_url) not in taken]
    _learn({each.broker_id: _address(each.broker_url) for each in (*running, *gone)})


def learn_members(members: Iterable[ClusterMember]) -> None:
    """Remember the names of all members of a Raft group."""
    _learn({each.node_id: _address(each.address) for each in members})


def named(text: str) -> str:
    """The text with names in place of the ids that are known, for a person."""
    return text if _AS_IDS.get() else _ID.sub(lambda found: _NAMES.get(found[0], found[0]), text)


@contextmanager
def as_ids(wanted: bool) -> Iterator[None]:  # noqa: FBT001 - as an option says
    """Within, `named` leaves ids as they are, if that is wanted."""
    token = _AS_IDS.set(wanted)
    try:
        yield
    finally:
        _AS_IDS.reset(token)


async def learn_what_is_in(text: str, gateway: AdminGateway) -> None:
    """Ask for names, if there is an id in the text that has none."""
    if all(found in _NAMES for found in _ID.findall(text)):
        return
    try:
        learn_brokers(await gateway.brokers())
        learn_members((await gateway.describe_cluster()).members)
    except DanubeError:
        return  # whoever reads it sees ids


async def with_ids(params: P, gateway: AdminGateway) -> P:
    """The parameters with ids in place of names: a broker's or member's `host:port`, of any of its ports.

    Raises NotFoundError, which lists the names that there are.
    """
    found = {}
    for spec in field_specs(type(params)):
        given = getattr(params, spec.name)
        if spec.completes in {BROKER, NODE} and isinstance(given, str) and not given.isdecimal():
            found[spec.name] = _id_of(given, spec.completes, await _places(spec.completes, gateway))
    return params.model_copy(update=found) if found else params


async def names(kind: str, gateway: AdminGateway) -> list[str]:
    """A name of each broker or member, its id where it has none. Raises DanubeError."""
    return sorted(_NAMES.get(each, each) for each in await _places(kind, gateway))


async def _places(kind: str, gateway: AdminGateway) -> dict[str, set[str]]:
    """The addresses of each, by its id."""
    if kind == NODE:
        members = (await gateway.describe_cluster()).members
        learn_members(members)
        return {each.node_id: {_address(each.address)} for each in members}
    brokers = await gateway.brokers()
    learn_brokers(brokers)
    return {each.broker_id: {_address(each.broker_url), _address(each.admin_url)} for each in brokers}


def _id_of(given: str, kind: str, places: Mapping[str, set[str]]) -> str:
    found = [each for each, addresses in places.items() if each == given or _address(given) in addresses]
    if len(found) == 1:
        return found[0]
    known = ", ".join(sorted(_NAMES.get(each, each) for each in places))
    why = f"{len(found)} {kind}s are at" if found else f"there is no {kind}"
    raise NotFoundError(f"{why} {given[:100]!r}: name one of {known}, or its id")


def _address(url: str) -> str:
    try:
        return host_and_port(url)
    except SettingsError:
        return url


def _learn(found: Mapping[str, str]) -> None:
    if len(_NAMES) + len(found) > BROKER_NAMES_MAX:
        _NAMES.clear()
    shared = Counter(found.values())
    _NAMES.update({each: name if name and shared[name] == 1 else each for each, name in found.items()})
