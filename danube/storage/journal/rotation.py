"""When a journal goes on in a new file. Pure."""

from danube.storage.journal.format import HEADER_BYTES


def needs_new_file(file_bytes: int, round_bytes: int, file_bytes_max: int) -> bool:
    """Whether a round goes into a new file: it would pass the bound, and the present file holds at least one."""
    return file_bytes > HEADER_BYTES and file_bytes + round_bytes > file_bytes_max
