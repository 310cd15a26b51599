"""Explore: `python -m fuzzing SEED COUNT` runs COUNT lines, and lists what is wrong by kind."""

import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from fuzzing import zoo
from fuzzing.checks import wrong_lines
from fuzzing.runs import nursery


def main(seed: str, count: int) -> None:
    found: dict[str, list[str]] = defaultdict(list)
    with nursery() as nest, tempfile.TemporaryDirectory() as folder:
        home = zoo.Zoo(Path(folder), zoo.things(nest))
        for line, sentences in wrong_lines(nest, home, seed, count):
            for sentence in sentences:
                kind = re.sub(r"'.*?'|\d+", "…", sentence)[:150]
                found[kind].append(f"{sentence}\n      {line}")
    for kind, cases in sorted(found.items(), key=lambda one: -len(one[1])):
        print(f"{len(cases):5} {kind}")
        for case in sorted(cases, key=lambda one: len(one.rpartition("\n")[2]))[:3]:
            print(f"      {case}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
