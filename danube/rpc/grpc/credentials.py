"""TLS for the asking side of the gRPC carrier."""

import grpc


def channel_credentials(
    *, ca: bytes | None = None, certificate: bytes | None = None, key: bytes | None = None
) -> grpc.ChannelCredentials:
    """Credentials from PEM bytes: who is trusted (None: what the system trusts), and who the client is."""
    return grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=certificate)
