"""Trials of a metadata cluster whose figures anyone can measure again."""
