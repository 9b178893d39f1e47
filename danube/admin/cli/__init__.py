"""`danube-admin` on the command line: commands generated from the operations, for people and for scripts."""
