"""Settings of the group `meta_store`: the metadata store of a broker."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from danube.broker.config.addresses import Address
from danube.rpc.address import is_loopback, split_address


class MetaStoreType(StrEnum):
    """The kind of metadata store."""

    MEMORY = "memory"
    RAFT = "raft"
    ETCD = "etcd"
    ZOOKEEPER = "zookeeper"

    @property
    def is_service(self) -> bool:
        """True if a service keeps it, and no data folder."""
        return self in _OF_SERVICES


_OF_SERVICES = (MetaStoreType.ETCD, MetaStoreType.ZOOKEEPER)
_WITH_TLS = (MetaStoreType.RAFT, *_OF_SERVICES)

_OF_TYPES: Mapping[str, tuple[MetaStoreType, ...]] = {
    "raft_addr": (MetaStoreType.RAFT,),
    "raft_advertised_addr": (MetaStoreType.RAFT,),
    "seed_nodes": (MetaStoreType.RAFT,),
    "join": (MetaStoreType.RAFT,),
    "secret": (MetaStoreType.RAFT,),
    "secret_file": (MetaStoreType.RAFT,),
    "endpoints": (MetaStoreType.ETCD,),
    "hosts": (MetaStoreType.ZOOKEEPER,),
    "user": _OF_SERVICES,
    "password": _OF_SERVICES,
    "password_file": _OF_SERVICES,
    "root": _OF_SERVICES,
    "tls_ca": _WITH_TLS,
    "tls_cert": _WITH_TLS,
    "tls_key": _WITH_TLS,
}
"""The settings that have a meaning with some types only."""


class MetaStoreSettings(BaseModel):
    """Settings of the group `meta_store`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: MetaStoreType = Field(
        MetaStoreType.RAFT,
        description="raft: in the data folder; the brokers of a cluster agree among themselves. "
        "etcd, zookeeper: kept by that service. memory: forgotten at the end.",
    )
    raft_addr: Address = Field(
        "127.0.0.1:7650",
        description="raft: host:port for the other brokers; beyond loopback it needs a secret or TLS. A standalone"
        " broker opens no port.",
    )
    raft_advertised_addr: Address | None = Field(
        None, description="raft: what other brokers are told to dial; raft_addr when not set."
    )
    seed_nodes: tuple[Address, ...] = Field(
        (), description="raft: Raft addresses of the brokers that form the cluster at its first start; none: this one."
    )
    join: bool = Field(
        default=False, description="raft: wait to be added to a cluster that is there (danube-admin cluster add-node)."
    )
    secret: SecretStr | None = Field(None, description="raft: what all brokers of the cluster know and nobody else.")
    secret_file: Path | None = Field(
        None, description="raft: a file that holds the secret, readable by its owner alone."
    )
    endpoints: tuple[str, ...] = Field(("127.0.0.1:2379",), description="etcd: host:port of its members.")
    hosts: tuple[Address, ...] = Field(("127.0.0.1:2181",), description="zookeeper: host:port of its members.")
    user: str | None = Field(None, description="etcd, zookeeper: whom to log in as.")
    password: SecretStr | None = Field(None, description="etcd, zookeeper: the password of `user`.")
    password_file: Path | None = Field(None, description="etcd, zookeeper: a file that holds that password.")
    root: str = Field(
        "/danube",
        pattern=r"^(/[A-Za-z0-9_.-]+)+$",
        description="etcd, zookeeper: below which key everything is kept; each cluster has its own.",
    )
    tls_ca: Path | None = Field(
        None, description="With raft, etcd, zookeeper: PEM of who signed the others' certificates."
    )
    tls_cert: Path | None = Field(
        None, description="With raft, etcd, zookeeper: PEM file of this broker's certificate."
    )
    tls_key: Path | None = Field(
        None, description="With raft, etcd, zookeeper: PEM file of its key, for its owner alone."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for key in sorted(self.model_fields_set & set(_OF_TYPES)):
            if self.type not in _OF_TYPES[key]:
                types = " or ".join(_OF_TYPES[key])
                raise ValueError(f"meta_store.{key} goes with meta_store.type {types}, and the type is {self.type}")
        for one in ("secret", "password"):
            if getattr(self, one) is not None and getattr(self, f"{one}_file") is not None:
                raise ValueError(f"give meta_store.{one} or meta_store.{one}_file, not both")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("meta_store.tls_cert and meta_store.tls_key go together: give both")
        if self.type is MetaStoreType.RAFT:
            self._check_raft()
        return self

    def _check_raft(self) -> None:
        if self.join and self.seed_nodes:
            raise ValueError("meta_store.join waits to be added and asks no seeds: leave out meta_store.seed_nodes")
        if self.tls_ca is not None and self.tls_cert is None:
            raise ValueError("the Raft port needs all of meta_store.tls_ca, tls_cert and tls_key")
        if (self.seed_nodes or self.join) and not self.is_guarded and not self.is_on_loopback:
            raise ValueError(
                f"the Raft port {self.raft_addr} would take commands from anybody who reaches it: give all brokers "
                "one meta_store.secret_file, or meta_store.tls_ca, tls_cert and tls_key; or listen on 127.0.0.1"
            )

    @property
    def is_guarded(self) -> bool:
        """True if the Raft port authenticates peers."""
        return any(one is not None for one in (self.secret, self.secret_file, self.tls_cert))

    @property
    def is_on_loopback(self) -> bool:
        """True if only this machine reaches the Raft port."""
        return is_loopback(split_address(self.raft_addr)[0])


def means_cluster(given: Any) -> bool:  # noqa: ANN401 - whatever was given
    """True if settings of this group are for brokers that share a store: any of Raft or a service."""
    if isinstance(given, MetaStoreSettings):
        return given.type is not MetaStoreType.MEMORY and bool(given.model_fields_set)
    return isinstance(given, Mapping) and bool(given) and given.get("type") != MetaStoreType.MEMORY
