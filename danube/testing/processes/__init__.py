"""Real servers in processes of their own."""
