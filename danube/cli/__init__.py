"""`danube`: produce and consume from a terminal."""
