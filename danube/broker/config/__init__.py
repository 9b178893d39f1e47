"""Settings of a broker: their loading, and the values made of them."""
