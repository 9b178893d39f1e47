"""Measures, each printed with the machine it was taken on. Compare ratios of one run: times are noisy."""
