"""Values that members send and store: nodes, and the encoding of commands."""
