"""Kinds of entries in Raft's log, as pysyncobj has them."""

REGULAR = b"\x00"
NO_OP = b"\x01"
MEMBERSHIP = b"\x02"
"""The first byte of a command says its kind."""
