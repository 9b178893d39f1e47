"""Formats without a definition."""

import pytest

from danube.model.errors import PayloadInvalidError
from danube.model.schema import CompatibilityMode, SchemaType
from danube.schema.compatibility import check
from danube.schema.formats import parse
from danube.schema.validation import validator


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (SchemaType.BYTES, [b"", b"\xff"], []),
        (SchemaType.STRING, [b"", "grüß".encode()], [b"\xff", b"a\xc3"]),
        (SchemaType.NUMBER, [b"1234", b"12345678"], [b"", b"1", b"12345"]),
    ],
)
def test_payloads_of_simple_formats_are_checked(kind: SchemaType, good: list[bytes], bad: list[bytes]) -> None:
    checks = validator(parse(kind, b""))
    for payload in good:
        checks.check(payload)
    for payload in bad:
        with pytest.raises(PayloadInvalidError):
            checks.check(payload)


def test_a_simple_format_has_one_version_whatever_its_text() -> None:
    one, two = parse(SchemaType.STRING, "a"), parse(SchemaType.STRING, "b")
    assert one.fingerprint == two.fingerprint == "string"
    assert check(CompatibilityMode.FULL_TRANSITIVE, two, [(1, one)]).is_compatible


def test_another_format_is_compatible_in_mode_none_alone() -> None:
    old, new = parse(SchemaType.BYTES, ""), parse(SchemaType.STRING, "")
    for mode in CompatibilityMode:
        verdict = check(mode, new, [(1, old)])
        assert verdict.is_compatible is (mode is CompatibilityMode.NONE)
        assert [finding.difference.kind for finding in verdict.conflicts] == ["format_replaced"] * bool(
            verdict.findings
        )
