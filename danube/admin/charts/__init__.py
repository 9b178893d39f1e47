"""Pictures of a cluster, in characters and as SVG; no I/O."""
