"""Bounds of authentication and authorization."""

TOKEN_BYTES_MAX = 8 * 1024
"""Of one token; a header of HTTP/2 is hardly longer."""
TOKEN_LEEWAY_S = 60
"""Seconds for which an expired token still counts, as in the original: clocks differ."""
TOKEN_SECRET_BYTES_MIN = 32
"""Of the secret of HS256 (RFC 7518, 3.2)."""
RSA_BITS_MIN = 2_048
"""Of a public key of tokens."""
TOKEN_KEYS_MAX = 32
"""Keys of tokens at the same time, those of a key set included."""
TOKEN_CACHE_MAX = 10_000
"""Verified credentials that are remembered."""
TARGETS_CACHE_MAX = 10_000
"""Topics whose targets are remembered."""
DECISION_CACHE_MAX = 50_000
"""Decisions that are remembered until a role or a binding changes."""
FAILED_ATTEMPTS_MAX = 20
"""Credentials of one address that may be wrong within FAILED_ATTEMPTS_S; further ones wait without being checked."""
FAILED_ATTEMPTS_S = 10.0
FAILED_ADDRESSES_MAX = 10_000
"""Addresses whose failures are counted; the oldest go first."""
ROLES_MAX = 1_000
BINDINGS_MAX = 10_000
REVOCATIONS_MAX = 10_000
API_KEYS_MAX = 10_000
SECURITY_NAME_BYTES_MAX = 256
"""Of a role, a principal, a binding's id."""
KEY_SET_BYTES_MAX = 256 * 1024
"""Of a JSON Web Key Set."""
KEY_SET_TIMEOUT_S = 10.0
KEY_SET_REFRESH_S = 300.0
"""Seconds between two reads of a key set from its URL."""
KEY_SET_RETRY_S = 30.0
"""The same after a failure, or when a token was refused: its key may be new."""
CERTIFICATE_WARNING_S = 14 * 86_400.0
"""Seconds before its expiry from which on a certificate is warned of, once a day."""
CERTIFICATE_CHECK_S = 10.0
"""Seconds between two looks at the files of certificates."""
CLUSTER_TOKEN_S = 300
"""Seconds for which a token of one broker to another counts; their clocks may differ by as much."""
SECURITY_SWEEP_S = 1.0
"""Seconds between two looks for streams whose token has expired."""
API_KEY_TOKEN_S = 3_600
"""Seconds for which a token that an API key was exchanged for counts."""
ROLE_PERMISSIONS_MAX = 32
"""Permissions of one role, and roles of one binding."""
API_KEY_DAYS_MAX = 3_650
SECRET_FILE_BYTES_MAX = 64 * 1024
"""Of a file that holds secrets or a token."""
QUOTA_MAX = 1 << 50
"""Of any quota of a namespace or a principal."""
QUOTA_EXCEPTIONS_MAX = 10_000
"""Limits of single namespaces and principals."""
QUOTA_ACCOUNTS_MAX = 20_000
"""Namespaces and principals that are counted at once; those without open streams are forgotten first."""
AUDIT_CLAIMS_PER_S = 5.0
"""Audit records a second that clients of one principal tell one broker, in the long run."""
AUDIT_CLAIMS_BURST = 1_000.0
"""The same after a rest, at once."""
