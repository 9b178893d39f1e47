"""Security: who calls, what is allowed, and the certificates of TLS. No broker and no carrier."""
