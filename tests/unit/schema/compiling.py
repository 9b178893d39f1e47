"""Protobuf's compiler in the process of the tests: a hundredth of the time of a process for each definition."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import grpc_tools  # type: ignore[import-untyped]  # it has no types
from grpc_tools import protoc

from danube.model.errors import SchemaInvalidError
from danube.model.schema import SchemaType
from danube.schema.formats import parse
from danube.schema.parsed import ParsedSchema

_WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"


def compile_here(root: str, files: Mapping[str, str]) -> bytes:
    """As the compiler of the edge, for text that tests trust."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        output = Path(folder, "out.binpb")
        code = protoc.main(
            ["protoc", f"-I{folder}", f"-I{_WELL_KNOWN}", "--include_imports", f"--descriptor_set_out={output}", root]
        )
        if code:
            raise SchemaInvalidError("protoc refuses it", root)
        return output.read_bytes()


def protobuf(text: str, references: Mapping[str, str] | None = None) -> ParsedSchema:
    """Definition of proto3, unless the text names another syntax."""
    whole = text if text.startswith("syntax") else f'syntax = "proto3"; {text}'
    return parse(SchemaType.PROTOBUF, whole, references, compile_proto=compile_here)
