"""The command `danube query`."""
