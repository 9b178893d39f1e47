"""Labelled incidents made by seed, and rules of alerts judged on them. Pure."""
