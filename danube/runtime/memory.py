"""The memory of a process that runs for long."""

import gc


def settle_memory() -> None:
    """Have the garbage collector leave alone what a start has made: modules and tables, which live to the end.

    Else each of its full rounds, on the event loop in the midst of everything, would look at all of it again.
    """
    gc.collect()
    gc.freeze()
