"""Widgets of the screens. Text from a cluster is drawn by `rows` and `lines` alone, which obey nothing in it."""
