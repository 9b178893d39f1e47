"""How topics go from one broker to another over a folder that both can reach, so that nothing acknowledged is lost."""
