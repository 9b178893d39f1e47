"""Ports of the HTTP faces: their certificates, and logins with credentials of the cluster."""
