"""Danube in Python. Public names are resolved on first use: importing `danube` starts and loads nothing."""
