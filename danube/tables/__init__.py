"""Topics as tables of Arrow: planning is pure, and nothing is left behind on a broker."""
