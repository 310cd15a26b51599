"""Run lines in a zoo, and judge them."""

from collections.abc import Iterator

from fuzzing import judge, lines
from fuzzing.lines import Line
from fuzzing.runs import Nursery, Run
from fuzzing.zoo import Zoo


def wrong_lines(
    nest: Nursery, zoo: Zoo, seed: str, count: int, *, fresh: int = 0
) -> Iterator[tuple[Line, list[str]]]:
    """The lines of this seed with something wrong. One line in `fresh` starts a new Python."""
    for at, line in enumerate(lines.lines(seed, count, sorted(zoo.things))):
        if sentences := wrong(nest, zoo, line, fresh=bool(fresh) and at % fresh == 0):
            yield line, sentences


def wrong(
    nest: Nursery, zoo: Zoo, line: Line, *, fresh: bool = False, plant: str = "",
    patience: float = 1.0,
) -> list[str]:  # fmt: skip
    """What is wrong with one line. The zoo is tidy before and after."""
    environment = zoo.environment(**line.environment)
    ended = nest.run(
        Run(line.typed, str(zoo.box), environment, fresh, plant=plant, patience=patience)
    )
    sentences = judge.judged(line, ended, zoo)
    zoo.tidy()
    return sentences
