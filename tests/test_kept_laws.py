"""Laws of losses that are kept: each request gets its own law, even from several threads."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from headcount.accounting import laws
from headcount.accounting.losses import KeptLaws, LossLaw, MovedLaw

ORDER = np.random.default_rng(1).integers(0, 20, 200).tolist()


def law(number: int) -> LossLaw:
    return LossLaw(number, 1.0, np.ones(1), 0.0)


def test_every_request_gets_the_law_of_its_parameters() -> None:
    kept = KeptLaws()
    assert [kept.get(one, partial(law, one)).start for one in ORDER] == ORDER


def test_only_the_last_laws_are_kept() -> None:
    kept = KeptLaws()
    computed: list[int] = []

    def compute(number: int) -> LossLaw:
        computed.append(number)
        return law(number)

    for number in (*range(8), 0, 8, 0, 1):
        kept.get(number, partial(compute, number))
    assert computed == [*range(8), 8, 1]  # 1 was the law that nobody had asked for longest


class Interrupted:
    """Parameters with which another thread asks for other laws while a law is looked up."""

    def __init__(self, kept: KeptLaws, after: int) -> None:
        self.kept, self.after = kept, after

    def __hash__(self) -> int:
        self.after -= 1
        if self.after == 0:
            for number in range(100, 120):
                assert self.kept.get(number, partial(law, number)).start == number
        return 7


@pytest.mark.parametrize("after", range(1, 6))
def test_a_thread_may_ask_while_another_one_does(after: int) -> None:
    kept = KeptLaws()
    parameters = Interrupted(kept, 0)
    assert kept.get(parameters, lambda: law(1)).start == 1  # the oldest law
    for number in range(20, 27):
        kept.get(number, partial(law, number))
    parameters.after = after
    for number in (30, 31):
        assert kept.get(number, partial(law, number)).start == number
        assert kept.get(parameters, lambda: law(1)).start == 1


def test_laws_of_moved_noise_depend_on_all_of_their_parameters() -> None:
    noise = laws.poisson(Fraction(50))
    kept = MovedLaw(noise)
    every = [
        (by, step, cut) for by in (-1, 0, 1, 2) for step in (0.1, 0.03) for cut in (1e-9, 1e-12)
    ]
    for at in ORDER:
        by, step, cut = every[at % len(every)]
        one, fresh = kept.losses(by, step, cut), MovedLaw(noise).losses(by, step, cut)
        assert (one.start, one.step, one.infinite) == (fresh.start, fresh.step, fresh.infinite)
        assert np.array_equal(one.mass, fresh.mass)
