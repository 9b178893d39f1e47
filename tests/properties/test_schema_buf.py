"""Protobuf: `buf breaking` as an oracle, for random pairs, all in one call of it.

buf judges one direction, so ours is the backward one. It is stricter in some kinds, which are listed, and looser in
others: it does not know a name that moved to another number, nor that messages are payloads.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from danube.model.errors import SchemaInvalidError
from danube.model.schema import SchemaType
from danube.schema.compatibility import differences, rules_of
from danube.schema.differences import Direction, directions
from danube.schema.formats import parse
from danube.testing.patience import PATIENCE_S
from tests.properties import protobuf_pairs

PAIRS = int(os.environ.get("SCHEMA_PAIRS", "200"))
LOOSER = {
    "field_renumbered",
    "message_removed",
    "main_message_changed",
    "enum_value_renumbered",
    "required_enum_narrowed",
}
"""Ours that buf lets pass."""
STRICTER = {
    "ENUM_VALUE_NO_DELETE_UNLESS_NUMBER_RESERVED",
    "FIELD_NO_DELETE_UNLESS_NUMBER_RESERVED",
    "FIELD_SAME_DEFAULT",
    "FIELD_SAME_ONEOF",
    "RESERVED_MESSAGE_NO_DELETE",
    "MESSAGE_SAME_REQUIRED_FIELDS",
}
"""buf's that are habits, and no break of the binary format."""
STRICTER_FOR = {
    "FIELD_WIRE_COMPATIBLE_TYPE": {"type_changed_in_group", "message_became_bytes"},
    "FIELD_WIRE_COMPATIBLE_CARDINALITY": {
        "field_became_repeated",
        "field_became_singular",
        "number_became_repeated",
        "field_became_optional",
    },
}
"""buf's that refuse, among others, these kinds of ours: Protobuf's documentation calls them compatible."""


def test_buf_refuses_what_we_refuse_and_no_more_than_is_known(tmp_path: Path) -> None:
    ours: dict[str, tuple[bool, set[str]]] = {}
    before, after = FileDescriptorSet(), FileDescriptorSet()
    for index in range(PAIRS):
        files = protobuf_pairs.random_pair(Random(f"buf {index}"), f"p{index}")
        try:
            old, new = (parse(SchemaType.PROTOBUF, protobuf_pairs.encoded(file)) for file in files)
        except SchemaInvalidError:
            continue
        found = differences(old, new)
        kinds = {difference.kind for difference in found}
        ours[files[0].name] = Direction.BACKWARD in directions(found, rules_of(old)), kinds
        before.file.append(files[0])
        after.file.append(files[1])
    buf = broken_by_buf(tmp_path, before, after)
    wrong = [
        f"{name}: ours {fits} {kinds}, buf {buf.get(name, set())}"
        for name, (fits, kinds) in ours.items()
        if not agree(fits=fits, kinds=kinds, broken=buf.get(name, set()))
    ]
    assert len(ours) > PAIRS // 2
    assert wrong == []


def agree(*, fits: bool, kinds: set[str], broken: set[str]) -> bool:
    """True if the verdicts are the same, or differ by what is known."""
    if not fits and not broken:
        return bool(kinds & LOOSER)
    if fits:
        return all(rule in STRICTER or kinds & STRICTER_FOR.get(rule, set()) for rule in broken)
    return True


def broken_by_buf(folder: Path, before: FileDescriptorSet, after: FileDescriptorSet) -> dict[str, set[str]]:
    """Rules of the binary format that buf finds broken, by file."""
    program = shutil.which("buf", path=str(Path(sys.executable).parent))
    assert program is not None
    images = folder / "after.binpb", folder / "before.binpb"
    for image, files in zip(images, (after, before), strict=True):
        image.write_bytes(files.SerializeToString())
    config = '{"version": "v2", "breaking": {"use": ["WIRE"]}}'
    asked = ["--against", str(images[1]), "--config", config, "--error-format", "json"]
    command = [program, "breaking", str(images[0]), *asked]
    environment = {"HOME": str(folder), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=PATIENCE_S)
    assert done.returncode in (0, 100), done.stderr
    found: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        entry = json.loads(line)
        found.setdefault(entry["path"], set()).add(entry["type"])
    return found
