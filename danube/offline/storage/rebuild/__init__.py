"""Metadata made anew from a bucket alone."""
