"""For tests of applications: a broker in the process, real ones in processes, simulated clock and disk, peers."""
