from danube.runtime.rng import SystemRng


def draw(rng: SystemRng) -> list[float]:
    return [rng.new_id(), rng.uniform(1.0, 2.0), rng.new_id()]


def test_the_same_seed_draws_the_same() -> None:
    assert draw(SystemRng(7)) == draw(SystemRng(7)) != draw(SystemRng(8))


def test_without_a_seed_every_draw_differs() -> None:
    assert draw(SystemRng()) != draw(SystemRng())


def test_numbers_are_in_their_range() -> None:
    rng = SystemRng(1)
    assert all(0.5 <= rng.uniform(0.5, 0.75) <= 0.75 for _ in range(1_000))
    assert all(1 <= rng.new_id() < 2**63 for _ in range(1_000))
