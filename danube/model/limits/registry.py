"""Bounds of the schema registry, and of validation on publish."""

from danube.model.limits.broker import KIB

SCHEMA_BYTES_MAX = 128 * KIB
"""Bytes of one definition: with its escapes in JSON it fits one metadata value."""
SCHEMA_SUBJECTS_MAX = 10_000
"""Subjects ever registered: each broker keeps the registry in memory."""
SCHEMA_VERSIONS_MAX = 1_000
"""Versions ever registered of one subject, deleted ones included."""
SCHEMA_REFERENCES_MAX = 100
"""References of one version."""
SCHEMA_REFERENCED_MAX = 500
"""Versions that one version rests on, directly or not."""
SCHEMA_TAGS_MAX = 64
SCHEMA_TEXT_BYTES_MAX = 4 * KIB
"""Bytes of a description, a creator or a tag."""
SCHEMA_VALIDATORS_MAX = 256
"""Compiled validators that a broker keeps."""
SCHEMA_ACCEPTED_MAX = 64
"""Pairs of id and version that a topic's check remembers as accepted."""
SCHEMA_USES_MAX = 1_000
"""Topics whose last use of a version is kept, for each version."""
SCHEMA_USE_RESOLUTION_S = 600.0
"""The time of the last use is written down at most this often."""
SCHEMA_PREPARE_TIMEOUT_S = 10.0
"""A publish waits this long for the validator of its version."""
SCHEMA_REFUSALS_SHOWN_CHARS = 300
"""Characters of a validator's reason in an error."""
SCHEMA_HTTP_BODY_BYTES_MAX = 512 * KIB
"""Bytes of one request to the HTTP face: a definition, escaped."""
SCHEMA_HTTP_REQUESTS_MAX = 64
"""Requests to the HTTP face of a broker under way at a time."""
SCHEMA_HTTP_DRAIN_S = 2.0
"""Requests under way at the end of a broker have this long."""
SCHEMA_DIFF_LINES_MAX = 2_000
"""Lines of a diff of two versions."""
