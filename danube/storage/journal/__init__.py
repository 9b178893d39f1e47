"""One journal per broker: all topics' batches and cursors, one write and one sync a round."""
