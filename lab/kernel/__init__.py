"""What every experiment stands on: seeds, chance, simulated machines, histories, rules, rounds, programs."""
