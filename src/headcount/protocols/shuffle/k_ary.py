"""k-ary randomized response with a shuffler (Balle, Bell, Gascón, Nissim 2019).

Notation    x ∈ {0, …, k−1} is a person's bucket. n is the number of people; h of them are honest.
            ε0 is the ε of the local protocol. The victim is the person whose value the adversary
            wants to learn.
Randomizer  The randomizer of `local.k-ary` for ε0: report x or, with some probability, another
            bucket.
Analyzer    The analyzer of `local.k-ary`.
Privacy     The privacy blanket gives an upper bound on δ. For two buckets, δ is that of binary
            response, which is exact for up to 10,000 honest people. For more buckets, the exact δ
            cannot be computed from the counts of the victim's two possible buckets alone. For
            k ≥ 4, the counts of the other buckets reveal something, too. For ε near ε0, the exact δ
            is largest if everybody else holds the victim's value.
Error       The error of `local.k-ary` for ε0.
Messages    1 message, which is a bucket. If the shuffler and the analyzer collude, the privacy loss
            is ε0.
"""

from dataclasses import dataclass
from typing import Literal

from headcount.core.tasks.histogram import Histogram
from headcount.protocols.shuffle.amplified import Amplified


@dataclass(frozen=True)
class ShuffledKAry(Amplified):
    name = "shuffle.k-ary"
    tasks = (Histogram,)

    # The name of the local protocol, which is always local.k-ary.
    local: Literal["local.k-ary"] = "local.k-ary"
