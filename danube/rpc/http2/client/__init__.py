"""The asking end: channels, their connections, calls and streams."""
