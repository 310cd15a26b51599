"""Group privacy: a protocol that protects one row also protects a person with up to k rows.

If a protocol is (η, δ')-private for replacing one row, it is (kη, δ' Σ_{i<k} e^{iη})-private for
replacing k rows. So if a person has the budget (ε, δ), each row has the budget η = ε/k and
δ' = δ / Σ_{i<k} e^{iη}. Both η and δ' are rounded down.
"""

import math
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction

from headcount.core.budget import LEAST_DELTA, Budget
from headcount.core.decimal_digits import decimal_digits
from headcount.core.errors import Infeasible
from headcount.core.guarantee import Guarantee
from headcount.core.table import short


def row_budget(budget: Budget, rows: int) -> Budget:
    """The budget of one row, such that a person with `rows` rows spends at most `budget`."""
    if rows == 1:
        return budget
    epsilon = _below(Fraction(budget.epsilon) / rows)
    delta = _below(Fraction(budget.delta) / _chain(epsilon, rows))
    if budget.delta and delta < LEAST_DELTA:
        raise Infeasible(
            f"{rows} rows of a person need a delta of at least {short(LEAST_DELTA)} for each row, "
            f"got {short(delta, 3)} from delta={short(budget.delta)} at "
            f"epsilon={short(budget.epsilon)}"
        )
    return Budget(epsilon, delta)


def person_guarantee(guarantee: Guarantee, rows: int) -> Guarantee:
    """The guarantee for a person with `rows` rows, given the guarantee for one row."""
    if rows == 1:
        return guarantee
    return replace(
        guarantee,
        epsilon=_above(Fraction(guarantee.epsilon) * rows),
        delta=_above(Fraction(guarantee.delta) * _chain(guarantee.epsilon, rows)),
        exact=False,
        method=f"{guarantee.method}; group privacy for {rows} rows of a person",
        neighbors=f"replace all rows (up to {rows}) of one person; "
        "the number of these rows is not hidden",
    )


def _chain(epsilon: float, rows: int) -> Fraction:
    """The sum Σ_{i<k} e^{iη} for k = `rows` and η = `epsilon`, rounded up at about 50 digits."""
    with decimal_digits(60, ROUND_CEILING):
        total = sum(((Decimal(epsilon) * i).exp() for i in range(rows)), Decimal(0))
        return Fraction(total * (1 + Decimal("1e-50")))


def _below(number: Fraction) -> float:
    """The largest float that is not above the number."""
    near = float(number)
    return near if Fraction(near) <= number else math.nextafter(near, -math.inf)


def _above(number: Fraction) -> float:
    """The smallest float that is not below the number."""
    near = float(number)
    return near if Fraction(near) >= number else math.nextafter(near, math.inf)
