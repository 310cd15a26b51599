"""k-ary randomized response with a shuffler (Balle, Bell, Gascón, Nissim 2019).

Notation    x ∈ {0, …, k−1} is a person's bucket, n the number of people; h of them are honest.
Randomizer  Report x, or with some probability any other bucket: `local.k-ary` for ε0.
Analyzer    The analyzer of `local.k-ary`.
Privacy     The privacy blanket, an upper bound. For two buckets δ is exact. For more, it is not
            enough to consider the counts of the victim's two buckets: for ε near ε0, in the worst
            crowd everybody holds the victim's value, and for k ≥ 4 the other buckets reveal
            something too.
Error       The error of `local.k-ary` for ε0.
Messages    1, a bucket. If shuffler and analyzer collude, the privacy loss is ε0.
"""

from dataclasses import dataclass
from typing import Literal

from headcount.core.tasks.histogram import Histogram
from headcount.protocols.shuffle.amplified import Amplified


@dataclass(frozen=True)
class ShuffledKAry(Amplified):
    name = "shuffle.k-ary"
    tasks = (Histogram,)

    local: Literal["local.k-ary"] = "local.k-ary"  # the local protocol; the only choice
