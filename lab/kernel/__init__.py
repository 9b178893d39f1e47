"""The floor under every experiment: seeds, chance, time, histories, rules, rounds, programs."""
