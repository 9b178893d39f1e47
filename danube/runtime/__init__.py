"""What the outside world gives us (clock, disk, chance, tasks, threads, settings, log), behind small protocols."""
