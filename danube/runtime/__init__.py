"""The environment of a process (clock, disk, randomness, tasks, threads, settings, log), behind small protocols."""
