"""Lag verdicts beside the truth: situations staged by real clients on a simulated clock, and their judge."""
