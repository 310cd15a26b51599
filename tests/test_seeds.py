"""Random bits that are not secure: all results that are made from them say so."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pyarrow import parquet

import headcount as hc
from commands import Headcount
from headcount.plot import figures, results
from headcount.randomness.sources import Owing
from headcount.road.pieces import collect

VALUES = [0, 1, 1, 0, 1] * 12
BUDGET = hc.Budget(1, 1e-3)
WORD = "not private"


class Wrapped(hc.Source):
    """A user's own source, which does not say whether it is secure."""

    def __init__(self) -> None:
        self._inside = hc.SecureSource()

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        self._inside.fill(buffer)


def of(trust: str, task: hc.Task | None = None) -> hc.Protocol:
    return hc.best_protocol(task or hc.Count(), BUDGET, hc.Crowd(60), trust)


def test_sources_say_whether_they_are_secure() -> None:
    secure, seeded = hc.SecureSource(), hc.SeededSource(1)
    assert secure.secure
    assert secure.part(1).secure
    assert Owing(secure).secure
    for source in (seeded, seeded.part(1), Owing(seeded), Wrapped(), Wrapped().part(1)):
        assert not source.secure


@pytest.mark.parametrize("trust", list(hc.Trust))
def test_every_way_to_an_estimate_keeps_the_mark(trust: str) -> None:
    protocol = of(trust)

    def both_halves(one: hc.Source, other: hc.Source) -> hc.Tally:
        return collect(protocol, VALUES[:30], one) + collect(protocol, VALUES[30:], other)

    def joined(one: hc.Source, other: hc.Source) -> hc.Tally:
        halves = (protocol.randomize(VALUES[:30], one), protocol.randomize(VALUES[30:], other))
        messages = hc.Messages.join(halves)
        again = hc.Messages.join([messages[0], *list(messages)[1:]])
        return protocol.tally(again.plus(np.array([], dtype=int), again.payload[:0]))

    def shuffled(one: hc.Source, other: hc.Source) -> hc.Tally:
        return protocol.tally(hc.shuffle(protocol.randomize(VALUES, one), other))

    def bundled(one: hc.Source, other: hc.Source) -> hc.Tally:
        bundles = [protocol.bundle(value, one) for value in VALUES[1:]]
        return protocol.tally(hc.Messages.join([protocol.bundle(VALUES[0], other), *bundles]))

    secure, seeded = hc.SecureSource(), hc.SeededSource(1)
    ways: list[Callable[[hc.Source, hc.Source], hc.Tally]]
    ways = [both_halves, joined, shuffled, bundled]
    for way in ways:
        kept = protocol.estimate(way(secure, secure))
        promise = protocol.bundled_guarantee if way is bundled else protocol.guarantee
        assert kept.guarantee == promise
        assert WORD not in str(kept)
        for sources in ((secure, seeded), (seeded, secure), (Wrapped(), secure)):
            tally = way(*sources)
            assert not tally.secure
            assert not protocol.estimate(tally).guarantee.secure
    assert not protocol.simulate([24, 36], seeded).secure
    assert hc.run(protocol, VALUES).guarantee.secure
    assert not hc.run(protocol, VALUES, seeded).guarantee.secure


def test_what_a_curator_adds_last_is_marked_too() -> None:
    protocol = of("central")
    tally = collect(protocol, VALUES, hc.SecureSource())
    assert protocol.estimate(tally, hc.SecureSource()).guarantee.secure
    assert not protocol.estimate(tally, hc.SeededSource(1)).guarantee.secure


def test_messages_that_withhold_keep_the_mark() -> None:
    protocol = hc.protocol(
        "shuffle.sample-threshold", hc.Histogram(["a", "b"]), hc.Budget(1, 1e-2), hc.Crowd(500)
    )
    sent = protocol.randomize(["a"] * 500, hc.SeededSource(1))
    assert not sent.only_single().secure


def test_bytes_do_not_say_how_they_were_made() -> None:
    protocol = of("local")
    bundle = protocol.randomize([1], hc.SeededSource(1))
    assert not bundle.secure
    assert hc.Messages.receive(bundle.to_bytes(), protocol.alphabet).secure


def shown(result: hc.Estimate | hc.GroupedEstimate, folder: Path) -> dict[str, str]:
    """All that people and programs read of a result, by where they read it."""
    saved = {ending: folder / f"result.{ending}" for ending in ("json", "html", "parquet")}
    for path in saved.values():
        results.save(result, path, 0.95)
    metadata = parquet.read_schema(saved["parquet"]).metadata[b"headcount"].decode()
    return {
        "str": str(result),
        "table": str(result.table()),
        "html": result._repr_html_(),
        "dict": json.dumps(result.to_dict()),
        "guarantee": str(result.guarantee),
        "guarantee's table": str(result.guarantee.table()),
        "guarantee's html": result.guarantee._repr_html_(),
        "guarantee's dict": json.dumps(result.guarantee.to_dict()),
        "json": saved["json"].read_text(encoding="utf-8"),
        "page": saved["html"].read_text(encoding="utf-8"),
        "parquet": metadata,
    }


@pytest.mark.parametrize(
    ("trust", "task", "group"),
    [
        ("central", hc.Count(), None),
        ("shuffle", hc.Count(), "city"),
        ("local", hc.Histogram(2), "city"),
        ("shuffle", hc.Histogram(2), None),
        ("central", hc.Density(0, 1), None),
    ],
)
def test_a_table_answered_with_a_seed_is_marked_everywhere(
    trust: str, task: hc.Task, group: str | None, tmp_path: Path
) -> None:
    table = {"value": VALUES, "city": ["Bonn", "Ulm"] * 30}

    def asked(source: hc.Source | None) -> hc.Estimate | hc.GroupedEstimate:
        return hc.estimate(
            table, task, column="value", budget=hc.Budget(2, 1e-2), trust=trust, group=group,
            source=source,
        )  # fmt: skip

    for source in (hc.SeededSource(1), Wrapped()):
        for where, text in shown(asked(source), tmp_path).items():
            assert WORD in text, where
            assert ", exact" not in text, where
            assert "exactly</td>" not in text, where
    for where, text in shown(asked(None), tmp_path).items():
        assert WORD not in text, where


def test_figures_are_marked() -> None:
    seeded = hc.SeededSource(1)
    histogram = hc.run(of("central", hc.Histogram(2)), VALUES, seeded)
    density = hc.run(of("central", hc.Density(0, 1)), VALUES, seeded)
    count = hc.run(of("central"), VALUES, seeded)
    for figure in (
        figures.histogram_figure(histogram, 0.95),
        figures.density_figure(density, 0.95),
        figures.trust_figure("A town", 36, [count], {"central": [(100, 1.0), (200, 1.0)]}),
    ):
        assert WORD in json.dumps(figure.to_dict()["title"])


def test_no_ledger_takes_what_is_not_kept(tmp_path: Path) -> None:
    book = hc.Ledger.create(tmp_path / "spent.db")
    book.create_dataset("town", hc.Budget(10, 1e-3))
    asked: dict[str, Any] = {"column": "value", "budget": BUDGET, "ledger": book}
    for source in (hc.SeededSource(1), Wrapped()):
        with pytest.raises(hc.InvalidParameter, match="secure source"):
            hc.estimate({"value": VALUES}, hc.Count(), source=source, **asked)
    protocol = of("central")
    marked = hc.run(protocol, VALUES, hc.SeededSource(1)).guarantee
    with pytest.raises(hc.InvalidParameter, match="must hold to be"):
        book.charge("town", marked, protocol.curve, protocol="x", task="count", users=60)
    with pytest.raises(hc.InvalidParameter, match="must hold to be"):
        hc.privacy_report(marked)
    assert book.spending("town").entries == ()


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("ending", ["json", "html", "parquet"])
def test_the_command_marks_files_and_both_kinds_of_output(
    headcount: Headcount, ending: str, tmp_path: Path
) -> None:
    arguments = ["estimate", "people.csv", "--column", "smoker", "--epsilon", "1"]
    arguments += ["--out", f"r.{ending}"]
    seed = ["--seed", "1", "--not-private"]
    for more, kept in (([], True), (seed, False)):
        done, as_json = headcount(*arguments, *more), headcount(*arguments, *more, "--json")
        assert done.status == as_json.status == 0
        path = tmp_path / f"r.{ending}"
        text = (
            str(parquet.read_schema(path).metadata)
            if ending == "parquet"
            else path.read_text(encoding="utf-8")
        )
        for told in (done.out, as_json.out, text):
            assert (WORD in told) != kept
        assert json.loads(as_json.out)["guarantee"]["secure"] == kept


def test_a_table_never_shows_a_pair_that_is_not_kept() -> None:
    protocol = hc.protocol("central.geometric", hc.Count(), hc.Budget(1), hc.Crowd(20))
    for found in (hc.run(protocol, [1] * 20, hc.SeededSource(1)), hc.run(protocol, [1] * 20)):
        (row,) = found.guarantee.table().rows
        assert row[1:3] == (("1", "0") if found.guarantee.secure else ("not kept", "not kept"))
