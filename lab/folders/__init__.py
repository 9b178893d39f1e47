"""Damage of real data folders."""
