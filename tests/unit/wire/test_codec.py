"""Codecs made from dataclasses: the pairs that fit, and those that are refused when they are declared."""

from dataclasses import dataclass

import pytest

from danube.model.errors import InvalidRequestError
from danube.wire.codec import Codec, Rule, record, row, single
from danube.wire.gen import DanubeAdmin_pb2, DanubeControl_pb2


@dataclass(frozen=True)
class Named:
    name: str


@dataclass(frozen=True)
class Node:
    address: str
    node_id: str | None = None


def test_a_field_that_the_message_lacks_is_named_when_the_pair_is_declared() -> None:
    with pytest.raises(ValueError, match=r"danube_admin\.AddNodeRequest has no field address"):
        record(Node, DanubeAdmin_pb2.AddNodeRequest)


def test_a_pair_is_declared_once() -> None:
    record(Named, DanubeAdmin_pb2.NamespaceRequest)
    with pytest.raises(ValueError, match=r"has a codec for danube_admin\.NamespaceRequest already"):
        record(Named, DanubeAdmin_pb2.NamespaceRequest)


def test_none_is_an_absent_field_or_where_fields_cannot_be_absent_zero() -> None:
    codec = record(Node, DanubeAdmin_pb2.AddNodeRequest, address="addr")
    assert codec.encode(Node("host:1")) == codec.encode(Node("host:1", "0"))
    assert codec.decode(codec.encode(Node("host:1"))) == Node("host:1", None)
    assert codec.decode(codec.encode(Node("host:1", "7"))) == Node("host:1", "7")
    lag: Codec[int | None] = single(DanubeControl_pb2.ClusterMember, "lag", int | None)
    assert [lag.decode(lag.encode(value)) for value in (None, 0, 3)] == [None, 0, 3]


def test_a_missing_field_has_the_error_of_its_rule() -> None:
    rule = Rule(missing="send the lag")
    codec = single(DanubeControl_pb2.ClusterMember, "lag", int, rule)
    assert codec.decode(codec.encode(0)) == 0
    with pytest.raises(InvalidRequestError, match="send the lag"):
        codec.decode(b"")


def test_a_row_takes_as_many_parts_as_it_has_fields() -> None:
    codec = row(DanubeAdmin_pb2.PromoteNodeResponse, success=bool, message=str)
    assert codec.decode(codec.encode((True, "done"))) == (True, "done")
    with pytest.raises(ValueError, match="longer"):
        codec.encode((True, "done", 3))
