"""Rounds of faults on a broker under load."""
