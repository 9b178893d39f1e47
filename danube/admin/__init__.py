"""`danube-admin`: one set of operations, shown as a CLI, a terminal UI, a web UI and an MCP server."""
