"""`danube-admin mcp install`: the server in the settings of an assistant's program."""
