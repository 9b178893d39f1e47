"""Bounds for waits of tests: against hanging for ever, and never a measure of anything."""

PATIENCE_S = 90.0
"""Longer than a machine stands still that has other work, and below the limit of a whole test in pyproject.toml."""
LONG_S = 3_600.0
"""For what must not happen by itself in a test, such as an acknowledgement that runs out of time: longer than any."""
