"""Shipped with the package: simulated clock and disk, checkers."""
