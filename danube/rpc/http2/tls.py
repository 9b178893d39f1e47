"""TLS of a client of the engine, from PEM bytes, and names on certificates."""

import mmap
import os
import ssl
from collections.abc import Iterable
from typing import Any


def client_context(
    *, ca: bytes | None = None, certificate: bytes | None = None, key: bytes | None = None
) -> ssl.SSLContext:
    """TLS of a client from PEM bytes; without `ca` the system's authorities are trusted. Raises ssl.SSLError."""
    context = ssl.create_default_context(cadata=None if ca is None else ca.decode())
    context.set_alpn_protocols(["h2"])
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        _load_chain(context, certificate, key)
    return context


def _load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes | None) -> None:
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
