"""Releases of diffprivlib and OpenDP: a number or a table with a curator's noise."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.audited import Audited, Sampler, each

_FLOATS = (
    "the output is a float: if the answer is 0, it can have finer bits than any sum of 1 and noise "
    "(Mironov 2012); the sampler protects the noise, but not these bits"
)
_MOVED = "answers 0 and 1, sensitivity 1"
_FAR = "answers 1000 and 1001, sensitivity 1"


def diffprivlib() -> Iterator[Audited]:
    yield from _laplace()
    yield from _whole()
    yield from _tools()


def _case(name: str, epsilon: float, mechanism: Any, **more: Any) -> Audited:
    asked = {"pairs": [(0, 1)], "relation": _MOVED, **more}
    sample = each(mechanism.randomise)
    return Audited("diffprivlib", name, epsilon, sample, **asked)


def _laplace() -> Iterator[Audited]:
    from diffprivlib import mechanisms

    unit = {"epsilon": 1.0, "sensitivity": 1.0}
    yield _case("Laplace", 1.0, mechanisms.Laplace(**unit), reason=_FLOATS)
    yield _case("Laplace", 0.1, mechanisms.Laplace(epsilon=0.1, sensitivity=1.0), reason=_FLOATS)
    yield _case("Laplace", 1.0, mechanisms.Laplace(**unit), pairs=[(1000, 1001)], relation=_FAR)
    bounds = {"lower": -2.0, "upper": 3.0}
    for kind in ("LaplaceTruncated", "LaplaceFolded", "LaplaceBoundedDomain"):
        mechanism = getattr(mechanisms, kind)(**unit, **bounds)
        runs = 10_000 if kind == "LaplaceBoundedDomain" else 60_000
        yield _case(f"{kind}, −2 to 3", 1.0, mechanism, reason=_FLOATS, runs=runs)
    coarse = mechanisms.LaplaceBoundedDomain(**unit, lower=1000.0, upper=1001.0)
    yield _case(
        "LaplaceBoundedDomain, 1000 to 1001",
        1.0,
        coarse,
        pairs=[(1000, 1001)],
        relation=_FAR,
        runs=20_000,
    )
    noise = mechanisms.LaplaceBoundedNoise(epsilon=1.0, delta=0.05, sensitivity=1.0)
    yield _case("LaplaceBoundedNoise", 1.0, noise, delta=0.05, reason=_FLOATS, runs=20_000)
    gaussian = mechanisms.Gaussian(epsilon=1.0, delta=0.05, sensitivity=1.0)
    yield _case("Gaussian", 1.0, gaussian, delta=0.05, reason=_FLOATS)
    yield _case("Staircase", 1.0, mechanisms.Staircase(**unit), reason=_FLOATS)
    yield _case("Uniform", 0.0, mechanisms.Uniform(delta=0.1, sensitivity=1.0), delta=0.1)
    for epsilon in (0.1, 1.0):
        snapped = mechanisms.Snapping(epsilon=epsilon, sensitivity=1.0, lower=-64.0, upper=64.0)
        yield _case("Snapping, −64 to 64", epsilon, snapped)


def _words(mechanism: Any) -> Sampler:
    return each(lambda value: int(mechanism.randomise(value)))


def _whole() -> Iterator[Audited]:
    from diffprivlib import mechanisms

    for epsilon in (0.1, 1.0, 5.0):
        yield _case("Geometric", epsilon, mechanisms.Geometric(epsilon=epsilon))
    truncated = mechanisms.GeometricTruncated(epsilon=1.0, lower=0, upper=3)
    yield _case("GeometricTruncated, 0 to 3", 1.0, truncated)
    folded = mechanisms.GeometricFolded(epsilon=1.0, lower=0, upper=3)
    yield _case("GeometricFolded, 0 to 3", 1.0, folded, runs=8000)
    gaussian = mechanisms.GaussianDiscrete(epsilon=1.0, delta=0.05)
    yield _case("GaussianDiscrete", 1.0, gaussian, delta=0.05, runs=30_000)
    for epsilon in (0.1, 1.0, 5.0):
        binary = mechanisms.Binary(epsilon=epsilon, value0="0", value1="1")
        yield Audited("diffprivlib", "Binary", epsilon, _words(binary), [("0", "1")])

    def best(utility: list[int], count: int) -> Any:
        chosen = mechanisms.Exponential(epsilon=1.0, sensitivity=1, utility=utility)
        return np.array([chosen.randomise() for _ in range(count)])

    pair = ([0, 1, 1], [1, 0, 0])
    related = "utilities that differ by 1 each"
    yield Audited("diffprivlib", "Exponential, 3 choices", 1.0, best, [pair], related)


def _tools() -> Iterator[Audited]:
    from diffprivlib import tools

    replaced, added = "one person replaced", "one person added"
    runs: dict[str, Any] = {"runs": 8000}
    yield Audited(
        "diffprivlib",
        "count_nonzero",
        1.0,
        each(lambda data: tools.count_nonzero(data, epsilon=1.0)),
        [([0, 1, 1, 0], [1, 1, 1, 0])],
        replaced,
        **runs,
    )
    yield Audited(
        "diffprivlib",
        "mean, bounds −1 and 1",
        1.0,
        each(lambda data: tools.mean(data, epsilon=1.0, bounds=(-1, 1))),
        [([1.0, -1.0], [1.0, 1.0])],
        replaced,
        reason=_FLOATS,
        **runs,
    )
    yield Audited(
        "diffprivlib",
        "median, bounds 0 and 1",
        1.0,
        each(lambda data: tools.median(data, epsilon=1.0, bounds=(0, 1))),
        [([0.0, 0.0, 1.0], [0.0, 1.0, 1.0]), ([0.2, 0.5, 0.8], [0.2, 0.8, 0.8])],
        replaced,
        **runs,
    )

    def histogram(data: list[int]) -> Any:
        return tools.histogram(data, epsilon=1.0, bins=3, range=(0, 3))[0]

    yield Audited(
        "diffprivlib",
        "histogram, 3 bins",
        1.0,
        each(histogram),
        [([0, 0, 1, 2, 2], [0, 0, 1, 2])],
        added,
        **runs,
    )
    yield Audited(
        "diffprivlib",
        "histogram, 3 bins",
        1.0,
        each(histogram),
        [([0] * 4 + [2] * 3, [0] * 3 + [2] * 4)],
        replaced,
        reason="replacing a person changes two bins, but the noise is calibrated for one; the "
        "claim holds for adding a person (see below); the mean and the sum are calibrated for "
        "replacing a person, and the package does not say which neighbors it means",
        **runs,
    )


def opendp() -> Iterator[Audited]:
    import opendp.prelude

    dp: Any = opendp.prelude
    dp.enable_features("contrib", "honest-but-curious")

    def many(measurement: Any) -> Sampler:
        """The coordinates of a vector get independent noise, so each is a run for one number."""
        return lambda value, count: np.array(measurement([value] * count))

    floats = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    whole = dp.vector_domain(dp.atom_domain(T=int))
    central: dict[str, Any] = {"relation": _MOVED}
    for scale in (1.0, 10.0):
        laplace = dp.m.make_laplace(floats, dp.l1_distance(T=float), scale=scale)
        claim = laplace.map(1.0)
        name = f"make_laplace, floats, scale {scale:g}"
        yield Audited("opendp", name, claim, many(laplace), [(0.0, 1.0)], **central)
    laplace = dp.m.make_laplace(floats, dp.l1_distance(T=float), scale=1.0)
    yield Audited(
        "opendp",
        "make_laplace, floats, scale 1",
        laplace.map(1.0),
        many(laplace),
        [(1e15, 1e15 + 1)],
        "answers 1e15 and 1e15 + 1",
    )
    for scale in (0.2, 1.0, 10.0):
        geometric = dp.m.make_laplace(whole, dp.l1_distance(T=int), scale=scale)
        name = f"make_laplace, integers, scale {scale:g}"
        yield Audited("opendp", name, geometric.map(1), many(geometric), [(0, 1)], **central)
    few: dict[str, Any] = {"runs": 20_000}
    for chance in (0.55, 0.75, 0.99):
        coin = dp.m.make_randomized_response_bool(prob=chance)
        name = f"make_randomized_response_bool, {chance:g}"
        yield Audited("opendp", name, coin.map(1), each(coin), [(False, True)], **few)
    response = dp.m.make_randomized_response(categories=[0, 1, 2], prob=0.5)
    name = "make_randomized_response, 3 categories, 0.5"
    yield Audited("opendp", name, response.map(1), each(response), [(0, 1), (0, 2)], **few)
    bits = dp.m.make_randomized_response_bitvec(
        dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f=0.5
    )
    yield Audited(
        "opendp",
        "make_randomized_response_bitvec, f=0.5",
        bits.map(1),
        each(lambda value: bits(bytes([value]))[0]),
        [(1, 2), (1, 128)],
        "vectors with one bit set",
        **few,
    )
