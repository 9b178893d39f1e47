"""Program of the worker: limits itself, then runs protoc on files in its working directory. Run by its path.

Arguments: seconds of processor time, bytes of memory, bytes of a file, then protoc's own.
"""

import resource
import sys


def main() -> int:
    """Exit code of protoc."""
    cpu_s, memory_bytes, file_bytes = map(int, sys.argv[1:4])
    for limit, value in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    from importlib.resources import files  # noqa: PLC0415 - nothing is loaded before the limits

    from grpc_tools import protoc  # type: ignore[import-untyped]  # noqa: PLC0415 - as above; it has no types

    well_known = str(files("grpc_tools") / "_proto")
    return int(protoc.main(["protoc", "-I.", f"-I{well_known}", *sys.argv[4:]]))


if __name__ == "__main__":
    sys.exit(main())
