"""Security of one broker: the gate before every call, and the roles, bindings and revocations that it goes by."""
