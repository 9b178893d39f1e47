"""A certificate authority for trying security out: a CA, and certificates of brokers and clients that it signs."""

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from danube.model.errors import AlreadyExistsError

_CA = "ca"


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of one certificate: the file's name, the common name, and the hosts that it is for."""

    file: str
    name: str
    hosts: tuple[str, ...] = ()


def make_authority(folder: Path, subjects: list[Subject], *, now: datetime, days: int) -> list[Path]:
    """Write `ca.pem`, `ca.key`, and a `.pem` and a `.key` for each subject; answers the files.

    Keys are readable by their owner alone. A CA that is there signs the new certificates. Raises AlreadyExistsError
    for a certificate that is there: nothing is overwritten.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for subject in subjects:
        if (folder / f"{subject.file}.pem").exists():
            raise AlreadyExistsError(f"{folder / subject.file}.pem is there: remove it, or choose another folder")
    ca_file, ca_key_file = folder / f"{_CA}.pem", folder / f"{_CA}.key"
    written = [] if ca_file.exists() else [ca_file, ca_key_file]
    if written:
        key = ec.generate_private_key(ec.SECP256R1())
        _write(ca_file, _ca_certificate(key, now, days).public_bytes(Encoding.PEM))
        _write(ca_key_file, _pem(key), mode=0o600)
    authority = x509.load_pem_x509_certificate(ca_file.read_bytes())
    ca_key = load_pem_private_key(ca_key_file.read_bytes(), None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)  # noqa: S101 - this module made it
    for subject in subjects:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(subject, key, authority, ca_key, now=now, days=days)
        files = folder / f"{subject.file}.pem", folder / f"{subject.file}.key"
        _write(files[0], certificate.public_bytes(Encoding.PEM))
        _write(files[1], _pem(key), mode=0o600)
        written += files
    return written


def _ca_certificate(key: ec.EllipticCurvePrivateKey, now: datetime, days: int) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Danube CA")])
    return (
        _builder(name, name, key, now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _certificate(
    subject: Subject,
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    *,
    now: datetime,
    days: int,
) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject.name)])
    builder = (
        _builder(name, authority.subject, key, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    if subject.hosts:
        names = [_general_name(host) for host in subject.hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(ca_key, hashes.SHA256())


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
