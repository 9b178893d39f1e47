"""Histories of metadata stores, and the search for one order that explains them."""
