"""Which broker owns which topic: the view of the cluster, the rule that assigns, and this broker's own."""
