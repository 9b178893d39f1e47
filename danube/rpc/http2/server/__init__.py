"""The serving end: a listening server, its connections, calls and streams."""
