"""TLS of the engine: contexts that speak HTTP/2, from PEM bytes or files."""

import mmap
import os
import ssl
from collections.abc import Iterable
from typing import Any

_ALPN = ["h2"]


def client_context(
    *, ca: bytes | None = None, certificate: bytes | None = None, key: bytes | None = None
) -> ssl.SSLContext:
    """TLS of a client from PEM bytes; without `ca` the system's authorities are trusted. Raises ssl.SSLError."""
    context = ssl.create_default_context(cadata=None if ca is None else ca.decode())
    context.set_alpn_protocols(_ALPN)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        load_chain(context, certificate, key)
    return context


def server_context(certificate: bytes, key: bytes, *, client_ca: bytes | None = None) -> ssl.SSLContext:
    """TLS of a server from PEM bytes; with `client_ca` clients must have a certificate that it signed.

    `load_chain` on the same context gives new connections another certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(_ALPN)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_chain(context, certificate, key)
    if client_ca is not None:
        context.load_verify_locations(cadata=client_ca.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes | None) -> None:
    """Give a context a certificate and its key. Python reads them from files only: this one is in memory."""
    chain = certificate + b"\n" + (key or b"")
    file = os.memfd_create("certificate")
    try:
        os.posix_fallocate(file, 0, len(chain))
        with mmap.mmap(file, len(chain)) as memory:
            memory[:] = chain
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)


def common_name(certificate: dict[str, Any] | None) -> str | None:
    """The common name of a certificate, as `getpeercert` has it."""
    subject: Iterable[Iterable[tuple[str, str]]] = (certificate or {}).get("subject", ())
    return next((value for part in subject for name, value in part if name == "commonName"), None)
