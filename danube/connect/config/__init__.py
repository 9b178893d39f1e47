"""Files of connectors: our form and the original's."""
