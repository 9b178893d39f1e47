"""Looking into the data folder of a broker that does not run, judging it, and mending it."""
