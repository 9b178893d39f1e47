"""Carriers of calls, behind the protocols of `carrier`: services and clients know nothing else."""
