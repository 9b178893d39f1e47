"""What screens are made of. Text from a cluster is drawn by `rows` and `lines` alone, which obey nothing in it."""
