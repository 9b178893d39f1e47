"""The MCP server: operations as tools for an assistant, on standard input and output or over HTTP.

It decides nothing about the cluster: `danube.admin.execution` checks levels, makes plans and writes the audit log.
"""
