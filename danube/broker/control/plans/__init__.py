"""Plans of this broker: operations that act by a plan, each with its impact at this moment."""
