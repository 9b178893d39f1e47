"""Face 4: an HTTP API and pages over the same operations. Generated from the registry, as the other faces are."""
