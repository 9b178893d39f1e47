"""Protobuf's compiler in its process: real runs of it."""

from pathlib import Path

import pytest

from danube.model.errors import SchemaInvalidError
from danube.model.schema import SchemaType
from danube.runtime.protoc import compiler
from danube.runtime.protoc.compiler import compile_protos
from danube.schema.formats import parse

pytestmark = pytest.mark.slow


def test_text_is_compiled_with_its_imports_and_well_known_types() -> None:
    text = 'syntax = "proto3"; import "p/n.proto"; import "google/protobuf/timestamp.proto"; message M { p.N n = 1; }'
    given = {"p/n.proto": 'syntax = "proto3"; package p; message N { int32 x = 1; }'}
    parsed = parse(SchemaType.PROTOBUF, text, given, compile_proto=compile_protos)
    assert parsed.names == ("M",)


def test_files_of_the_disk_are_never_read() -> None:
    for name in ("/etc/hostname", "../../../../etc/hostname"):
        with pytest.raises(SchemaInvalidError, match="hostname"):
            compile_protos("a.proto", {"a.proto": f'syntax = "proto3"; import "{name}"; message M {{}}'})
    with pytest.raises(SchemaInvalidError, match="no name of a file"):
        compile_protos("a.proto", {"a.proto": "", "../b.proto": ""})


def test_an_error_has_the_compilers_place_and_reason() -> None:
    with pytest.raises(SchemaInvalidError, match=r"already been used") as refused:
        compile_protos("a.proto", {"a.proto": 'syntax = "proto3"; message M { string a = 1; string b = 1; }'})
    assert refused.value.path.startswith("a.proto:1:")


def test_a_compilation_beyond_its_limits_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "SCHEMA_COMPILE_MEMORY_BYTES", 16 * 1024 * 1024)
    with pytest.raises(SchemaInvalidError, match="limit of time or memory"):
        compile_protos("a.proto", {"a.proto": 'syntax = "proto3"; message M {}'})


def test_a_compiler_that_does_not_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "never.py").write_text("import time\nwhile True: time.sleep(1)\n")
    monkeypatch.setattr(compiler, "_PROGRAM", tmp_path / "never.py")
    monkeypatch.setattr(compiler, "SCHEMA_COMPILE_TIMEOUT_S", 0.5)
    with pytest.raises(SchemaInvalidError, match="not compiled within"):
        compile_protos("a.proto", {"a.proto": 'syntax = "proto3"; message M {}'})
