"""k-ary randomized response behind a shuffler (Balle, Bell, Gascón, Nissim 2019).

Notation    x ∈ {0, …, k−1} a person's bucket, n people, h of them honest.
Randomizer  Report x, or with some probability any other bucket: `local.k-ary` for ε0.
Analyzer    That of `local.k-ary`.
Privacy     The privacy blanket, an upper bound. The counts of the victim's two buckets alone would
            be too little: near ε0 the worst crowd is one where everybody holds the victim's value,
            and for k ≥ 4 the other buckets tell something too. For two buckets it is exact.
Error       That of `local.k-ary` for ε0.
Messages    1 of a bucket. If shuffler and analyzer collude, ε0 is left.
"""

from dataclasses import dataclass
from typing import Literal

from headcount.core.tasks.histogram import Histogram
from headcount.protocols.shuffle.amplified import Amplified


@dataclass(frozen=True)
class ShuffledKAry(Amplified):
    name = "shuffle.k-ary"
    tasks = (Histogram,)

    local: Literal["local.k-ary"] = "local.k-ary"  # the local protocol; there is one choice
