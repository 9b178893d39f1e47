"""pysyncobj's core, and the rules of ours in it.

pysyncobj imports `cryptography`, 7 MiB of memory, for passwords that nobody here gives it: it is kept from that.
"""

import sys

_CRYPTOGRAPHY = "cryptography"


def _import_pysyncobj() -> None:
    is_hidden = _CRYPTOGRAPHY not in sys.modules
    if is_hidden:
        sys.modules[_CRYPTOGRAPHY] = None  # type: ignore[assignment]  # so it cannot be imported
    try:
        import pysyncobj  # noqa: F401, PLC0415 - hidden from it for as long as this takes
    finally:
        if is_hidden:
            del sys.modules[_CRYPTOGRAPHY]


_import_pysyncobj()
