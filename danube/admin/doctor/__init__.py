"""What of this machine is wrong for a broker."""
