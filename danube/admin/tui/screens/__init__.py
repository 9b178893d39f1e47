"""Screens of the terminal, all on one base."""
