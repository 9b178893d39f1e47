"""Our messages and those of the official client, under the same names, in one process."""

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from danube.wire.gen import DanubeApi_pb2, SchemaRegistry_pb2

ROOT = Path(__file__).resolve().parents[3]

OFFICIAL = """
from google.protobuf import descriptor_pool
from google.protobuf.internal import builder

def official(data):
    names = {}
    file = descriptor_pool.Default().AddSerializedFile(data)
    builder.BuildMessageAndEnumDescriptors(file, names)
    builder.BuildTopDescriptorsAndMessages(file, "official", names)
    return names

theirs = [official(data) for data in FILES]
"""
OURS = "from danube.wire.gen import DanubeApi_pb2, EdgeReplicator_pb2, SchemaRegistry_pb2"
PROOF = """
sent = DanubeApi_pb2.StreamMessage(request_id=7, attributes={"a": "b"}, routing_key="k").SerializeToString()
assert theirs[0]["StreamMessage"].FromString(sent).SerializeToString() == sent
assert theirs[0]["StreamMessage"] is not DanubeApi_pb2.StreamMessage
assert theirs[1]["GetSchemaRequest"](version=3).version == SchemaRegistry_pb2.GetSchemaRequest(version=3).version
assert "ListSegmentDescriptorsRequest" not in theirs[0]
assert DanubeApi_pb2.ListSegmentDescriptorsRequest(topic="t").topic == "t"
"""


def official_files() -> list[bytes]:
    """What `danube-client` 0.5.0 registers: the same file names, packages and symbols, without the newest calls."""
    api, schemas = FileDescriptorProto(), FileDescriptorProto()
    DanubeApi_pb2.DESCRIPTOR.CopyToProto(api)
    SchemaRegistry_pb2.DESCRIPTOR.CopyToProto(schemas)
    del api.service[-1], api.message_type[-3:], schemas.service[0].method[-1], schemas.message_type[-3:]
    return [api.SerializeToString(), schemas.SerializeToString()]


def run(*parts: str) -> subprocess.CompletedProcess[str]:
    program = "\n".join([f"FILES = {official_files()!r}", *parts])
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("order", [(OFFICIAL, OURS), (OURS, OFFICIAL)], ids=["official first", "ours first"])
def test_the_official_clients_messages_load_beside_ours(order: tuple[str, str]) -> None:
    done = run(*order, PROOF)
    assert done.returncode == 0, done.stderr


def test_one_pool_could_not_hold_both() -> None:
    done = run(OFFICIAL, f"official({DanubeApi_pb2.DESCRIPTOR.serialized_pb!r})")
    assert "duplicate file name" in done.stderr
