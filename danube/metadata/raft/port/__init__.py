"""Raft port: connections between members, authentication, frames, questions."""
