"""Commands that change the members of a cluster, as a person types them. Pure."""

_ADMIN_PORT = 50_051  # the usual one: members do not tell theirs to who is none


def add_command(member: str, address: str) -> str:
    """Add the broker at this address to the cluster of a member; both are `host:port` of Raft."""
    return f"{_at(member)} add-node --node-addr {address}"


def remove_command(member: str, node_id: int) -> str:
    """Remove this one from the cluster of a member."""
    return f"{_at(member)} remove-node --node-id {node_id}"


def _at(member: str) -> str:
    return f"danube-admin --endpoint http://{member.rpartition(':')[0]}:{_ADMIN_PORT} cluster"
