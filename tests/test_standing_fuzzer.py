"""The command line, fuzzed. For any line and any damaged files, it answers or refuses in one line,
writes only what was asked for, and charges only for answers.

`FUZZ_SEED` in the environment tries other lines than the default.
"""

import os
import random
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzzing import faults, judge, lines, zoo
from fuzzing.checks import wrong, wrong_lines
from fuzzing.lines import Line
from fuzzing.runs import Nursery, Run, Stream, nursery

SEED = os.environ.get("FUZZ_SEED", "standing")
CHUNKS, CHUNK = 60, 50  # lines in all: 3,000
FRESH = 20  # one line in this many starts a Python of its own
Things = dict[str, zoo.Thing]


@pytest.fixture(scope="module")
def nest() -> Iterator[Nursery]:
    with nursery() as made:
        yield made


@pytest.fixture(scope="module")
def things(nest: Nursery) -> Things:
    return zoo.things(nest)


@pytest.fixture(scope="module")
def home(things: Things, tmp_path_factory: pytest.TempPathFactory) -> zoo.Zoo:
    return zoo.Zoo(tmp_path_factory.mktemp("zoo"), things)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Child processes have disks that can fail."""
    with nursery(faults.built_shim(tmp_path_factory.mktemp("shim"))) as made:
        yield made


def nothing_wrong(found: list[tuple[Line, list[str]]]) -> None:
    """Fail with every judgment and its line, in full."""
    sentences = [f"{one}\n    {line}" for line, said in found for one in said]
    if sentences:
        pytest.fail("\n".join(sentences), pytrace=False)


def asked(text: str) -> Line:
    """A line from its text. A word that begins with -- takes the next word as its value, unless
    that also begins with --.
    """
    words = shlex.split(text)
    named = next(one for one in lines.commands() if tuple(words[: len(one)]) == one)
    rest, arguments, options = words[len(named) :], [], []
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            option = lines.commands()[named].option(word)
            options.append((word, None if option is None or option.switch else rest.pop(0)))
        else:
            arguments.append(word)
    return Line(named, tuple(arguments), tuple(options))


def test_every_command_and_option_is_known() -> None:
    known = lines.commands()
    assert {one.words for one in known.values()} >= {
        *((name,) for name in ("plan", "estimate", "compare", "curve", "audit", "demo")),
        *(("ledger", name) for name in ("create", "show", "export")),
    }
    assert {len(lines.commands()[tuple(one.words.split())].words) for one in lines.RECIPES} == {
        1,
        2,
    }
    places = ["people.csv", "people.parquet", "people.jsonl", "spent.db", "plan.json"]
    made = [line.typed for line in lines.lines("options", 6000, places)]
    flags = {word.partition("=")[0] for words in made for word in words}
    fuzzed = [command for command in known.values() if not command.serves]
    assert flags >= {one.flag for command in fuzzed for one in command.options}
    assert made == [line.typed for line in lines.lines("options", 6000, places)]


def test_some_lines(nest: Nursery, home: zoo.Zoo) -> None:
    nothing_wrong([*wrong_lines(nest, home, f"{SEED} quick", 20)])


SPENT = "estimate people.csv --column smoker --epsilon 0.5 --ledger spent.db --out new.json --json"
PLANTED = {
    "traceback": "'Traceback (most recent call last)' on standard error: RuntimeError: planted",
    "warning": "a warning on standard error: RuntimeWarning",
    "status": "status 77 is not documented",
    "silent": "a failure must say one line, and said 0",
    "two lines": "a failure must say one line, and said 2: headcount: bad: one",
    "noise": "noise in a refusal, '<class '",
    "escape": "characters that a terminal obeys in a refusal",
    "two documents": "standard output is not one JSON document",
    "not finite": "NaN is no number",
    "lost": "charged without an answer",
    "uncharged": "an answer that was not charged",
    "left behind": "new: '.new.json.part'",
    "half": "the output is not readable as .json",
    "input": "changed: 'people.csv'",
    "gone": "gone: 'people.csv'",
    "process": "processes are left behind",
    "hang": "hangs",
    "busy": "hangs",
    "memory": "MemoryError",
}


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_mistake_is_found(nest: Nursery, home: zoo.Zoo, plant: str) -> None:
    found = wrong(nest, home, asked(SPENT), plant=plant, patience=0.03)
    assert any(PLANTED[plant] in sentence for sentence in found), found


def test_the_zoo_is_put_in_order(nest: Nursery, home: zoo.Zoo) -> None:
    things = {name: home.things[name].content for name in ("spent.db", "old.json", "people.csv")}
    for name in things:
        (home.box / name).write_bytes(b"another")
    (home.box / "new").mkdir()
    (home.box / "new" / "file").write_text("")
    (home.box / "link.csv").unlink()
    assert {(one.what, one.path) for one in home.changes()} == {
        *(("changed", name) for name in things), ("new", "new"), ("new", "new/file"),
        ("gone", "link.csv"),
    }  # fmt: skip
    home.tidy()
    assert home.changes() == []
    assert {name: (home.box / name).read_bytes() for name in things} == things
    assert (home.box / "link.csv").readlink() == Path("people.csv")


LOST: tuple[Stream, ...] = ("full", "closed", "pipe-closed", "pipe-one-line")
LIMITS = (0, 100, 5000, 50_000)


@pytest.mark.parametrize("stream", LOST)
def test_an_answer_without_a_place(nest: Nursery, home: zoo.Zoo, stream: Stream) -> None:
    nothing_wrong(
        [
            (line, faults.without_stream(nest, home, line, stdout=stream))
            for line in faults.CHARGING[:4]
        ]
    )


@pytest.mark.slow
def test_a_limit_on_files(nest: Nursery, home: zoo.Zoo) -> None:
    replacing = [line for line in faults.WRITING if line.value("--out") in ("old.json", "old.html")]
    for line in replacing:
        ((_, found),) = faults.under_limits(nest, home, line, [100])
        nothing_wrong([(line, found)])


@pytest.mark.slow
@pytest.mark.parametrize("recipe", lines.RECIPES, ids=lambda recipe: recipe.words)
def test_recipes_are_answered(nest: Nursery, home: zoo.Zoo, recipe: lines.Recipe) -> None:
    """Otherwise the fuzzer would test only refusals."""
    line = lines.whole(recipe, random.Random(1), sorted(home.things))
    ended = nest.run(Run(line.typed, str(home.box), home.environment()))
    home.tidy()
    expected = judge.EXHAUSTED if line.value("--ledger") == "tight.db" else judge.DONE
    refuted = line.words == ("audit",) and ended.status == judge.REFUTED
    assert ended.status == expected or refuted, (line, ended)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_lines(nest: Nursery, home: zoo.Zoo, chunk: int) -> None:
    nothing_wrong([*wrong_lines(nest, home, f"{SEED} {chunk}", CHUNK, fresh=FRESH)])


@pytest.mark.slow
@pytest.mark.parametrize("line", faults.WRITING, ids=str)
@pytest.mark.parametrize(
    ("error", "lasting"), [(faults.FULL, True), (faults.BROKEN, False)], ids=["full", "broken"]
)
def test_a_disk_that_fails_at_every_write(
    faulty: Nursery, home: zoo.Zoo, line: Line, error: int, lasting: bool
) -> None:
    found = [*faults.at_every_write(faulty, home, line, error=error, lasting=lasting)]
    assert len(found) > 2  # it was reached
    nothing_wrong([(line, [f"at write {at}: {one}" for one in said]) for at, said in found])


@pytest.mark.slow
@pytest.mark.parametrize("line", faults.WRITING, ids=str)
@pytest.mark.parametrize("ending", faults.ENDINGS)
def test_a_signal_at_every_write(faulty: Nursery, home: zoo.Zoo, line: Line, ending: int) -> None:
    found = [*faults.at_every_write(faulty, home, line, ending=ending)]
    assert len(found) > 2
    nothing_wrong([(line, [f"at write {at}: {one}" for one in said]) for at, said in found])


@pytest.mark.slow
@pytest.mark.parametrize("line", faults.WRITING, ids=str)
def test_limits_on_files(nest: Nursery, home: zoo.Zoo, line: Line) -> None:
    chance = random.Random(f"{SEED} limits")
    sizes = [*LIMITS, *(chance.randrange(60_000) for _ in range(12))]
    found = [*faults.under_limits(nest, home, line, sizes)]
    nothing_wrong([(line, [f"{size} bytes: {one}" for one in said]) for size, said in found])


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [False, True], ids=["forked", "fresh"])
@pytest.mark.parametrize("stream", LOST)
def test_streams_that_break(nest: Nursery, home: zoo.Zoo, stream: Stream, fresh: bool) -> None:
    found = []
    refused = asked("estimate nothing.csv --column smoker --epsilon 1")
    for line in (*(faults.CHARGING if fresh else faults.WRITING), refused):
        kept = faults.without_stream(nest, home, line, stdout=stream, fresh=fresh)
        found.append((line, kept))
        quiet = faults.without_stream(nest, home, line, stderr=stream, fresh=fresh)
        found.append((line, quiet))
    nothing_wrong(found)


@pytest.mark.slow
@pytest.mark.parametrize("ending", faults.ENDINGS, ids=lambda ending: ending.name)
@pytest.mark.parametrize("chunk", range(4))
def test_signals_at_any_moment(nest: Nursery, home: zoo.Zoo, chunk: int, ending: int) -> None:
    chance = random.Random(f"{SEED} {chunk} {ending}")
    found = []
    for _ in range(20):
        line = chance.choice(faults.WRITING)
        moment = chance.uniform(0.05, 1.5)
        found.append((line, faults.interrupted(nest, home, line, moment, ending)))
    nothing_wrong(found)
