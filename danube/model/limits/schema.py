"""Bounds of schemas, and of payloads that are checked by them."""

from danube.model.limits.broker import MIB

SCHEMA_BYTES_MAX = 1 * MIB
"""Bytes of one definition; with its references, of all of them."""
SCHEMA_DEPTH_MAX = 64
"""Levels of nesting in one definition."""
SCHEMA_NODES_MAX = 50_000
"""Parts of one definition with its references: schemas of JSON, types of Avro, fields of Protobuf."""
SCHEMA_REFERENCES_MAX = 256
"""Definitions that one definition rests on, those of its references included."""
SCHEMA_NAME_CHARS_MAX = 512
"""Characters of a reference's name."""
SCHEMA_COMPARISONS_MAX = 50_000
"""Pairs of parts that one comparison of two versions looks at; past it the versions count as incompatible."""
SCHEMA_DIFFERENCES_MAX = 1_000
"""Differences that one comparison names."""
SCHEMA_PATTERN_STEPS_MAX = 10_000
"""Backtracking steps of one match of a regular expression."""
SCHEMA_PATTERN_BYTES_MAX = 1 * MIB
"""Memory of one compiled regular expression."""
SCHEMA_APPLICATIONS_MAX = 1_000
"""Times that one value of a payload may be checked, by all parts of a JSON Schema together."""
SCHEMA_INLINE_STEPS_MAX = 1_000_000
"""Steps of ten nanoseconds, at the worst, of a check on the event loop; what may take more has a process apart."""
SCHEMA_REASON_STEPS_MAX = SCHEMA_INLINE_STEPS_MAX // 200
"""The same where the reason of a fault is looked for, too: an error costs hundreds of comparisons."""
SCHEMA_PARTS_STEPS_MAX = 50 * SCHEMA_INLINE_STEPS_MAX
"""Steps of a batch that is checked part by part, with other work between the parts: half a second."""
SCHEMA_CHECK_CPU_S = 0.5
"""Processor time of one check in that process, of a message or of a batch; it is refused past it."""
SCHEMA_CHECK_WALL_S = 10.0
"""Wall time of the same, on a machine that is busy with other things."""
SCHEMA_OVERRUN_REST_S = 2.0
"""Pause of a topic whose check has taken too long, before its next one: a new process takes a second to start."""
SCHEMA_CHECK_MEMORY_BYTES = 1024 * MIB
"""Address space of that process."""
SCHEMA_CHECKS_WAITING_BYTES = 64 * MIB
"""Payloads on all topics that wait for a check, or for their schema to be looked up."""
SCHEMA_PAYLOAD_DEPTH_MAX = 64
"""Levels of a payload that is checked."""
SCHEMA_PAYLOAD_DEPTH_MIN = 8
"""A JSON Schema that applies itself too often for payloads of so many levels is refused."""
SCHEMA_EMPTY_ITEMS_MAX = 65_536
"""Items of an Avro array that occupy no byte."""
SCHEMA_TEXT_CHARS_MAX = 200
"""Characters of a value that an error or a difference shows."""
SCHEMA_BINARY_DEPTH_MAX = 100
"""Levels of a payload of Avro or Protobuf: the libraries decode by recursion, and Protobuf's own bound is this."""

# Compiling
SCHEMA_COMPILE_TIMEOUT_S = 20.0
"""Wall time of one run of the Protobuf compiler: a busy machine starts a process in seconds. Clients wait for 30 s."""
SCHEMA_COMPILE_CPU_S = 5
"""Processor time of the same."""
SCHEMA_COMPILE_MEMORY_BYTES = 1024 * MIB
"""Address space of the same."""
SCHEMA_COMPILE_FILE_BYTES = 16 * MIB
"""Bytes of what it writes."""
