"""Any manifest reads back as written, and nothing that happened to its bytes goes unseen."""

from hypothesis import given
from hypothesis import strategies as st

from danube.storage.segment.manifest import Manifest
from danube.storage.segment.manifest_format import decode_manifest, encode_manifest
from tests.unit.storage.manifests import manifests


@given(manifests())
def test_a_manifest_reads_back_as_written(manifest: Manifest) -> None:
    assert decode_manifest(encode_manifest(manifest)) == manifest


@given(manifests(), st.data())
def test_a_changed_byte_is_detected(manifest: Manifest, data: st.DataObject) -> None:
    encoded = bytearray(encode_manifest(manifest))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    assert decode_manifest(bytes(encoded)) is None


@given(manifests(), st.data())
def test_a_truncated_manifest_is_none(manifest: Manifest, data: st.DataObject) -> None:
    encoded = encode_manifest(manifest)
    assert decode_manifest(encoded[: data.draw(st.integers(0, len(encoded) - 1))]) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    assert decode_manifest(data) is None
