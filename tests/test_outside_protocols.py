"""Protocols from outside: registered by hand or by a package, and randomizers given as a matrix."""

import json
import logging
import math
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import DistributionFinder, MetadataPathFinder
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import headcount as hc
from headcount.protocols import registry
from headcount.protocols.outside import Outside
from matrices import BUDGET, CROWD, THREE, Coin, Response, Shy

ARGUMENTS = ["--column", "smoker", "--epsilon", "1", "--protocol", "local.packed-coin", "--json"]


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a test registers."""
    monkeypatch.setattr(registry, "_outside", Outside(reserved=registry._CLASSES))


# Registration -----------------------------------------------------------------------------------


def test_a_registered_protocol_is_known_everywhere() -> None:
    assert hc.register(Response) is Response
    assert hc.register(Response) is Response
    assert hc.protocol_names().count("local.my-response") == 1
    assert "local.my-response" in hc.protocol_names(THREE, hc.Trust.LOCAL)
    assert "local.my-response" not in hc.protocol_names(hc.Mean(0, 1))
    assert "local.my-response" not in hc.protocol_names(trust=hc.Trust.SHUFFLE)
    built = hc.protocol("local.my-response", THREE, BUDGET, CROWD)
    assert built == Response(THREE, BUDGET, CROWD)
    planned = hc.plan(THREE, BUDGET, CROWD)
    assert planned["local.my-response"].standard_error == built.standard_error()
    assert planned.choose("local.my-response").protocol() == built
    found = hc.estimate(
        {"color": [0, 1, 2, 0] * 250}, THREE, budget=BUDGET, protocol="local.my-response"
    )
    assert isinstance(found, hc.Estimate)
    assert found.protocol == "local.my-response"
    shown = hc.compare(THREE, BUDGET, CROWD, protocols=["local.my-response"], values=[1000])
    assert shown.series[0].points[0].standard_error > 0
    needed = hc.needed_crowd(THREE, BUDGET, hc.Margin(0.1, share=True), trust="local")
    assert "local.my-response" in [one.protocol for one in needed.answers]
    with pytest.raises(hc.UnknownName, match=r"did you mean local\.my-response"):
        hc.protocol("local.my-respnse", THREE, BUDGET, CROWD)
    with pytest.raises(hc.UnknownName, match="takes the options calibration"):
        hc.protocol("local.my-response", THREE, BUDGET, CROWD, colour="red")


def test_names_are_in_order_and_own_ones_come_first() -> None:
    own = hc.protocol_names()
    hc.register(Shy)
    hc.register(Coin)
    assert hc.protocol_names() == [*own, "local.shy", "local.coin"]


def changed(**members: Any) -> Any:
    """A class like `Coin`, with some attributes changed."""
    return type("Changed", (Coin,), members)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (int, "must be a class that extends Protocol"),
        ("local.coin", "must be a class that extends Protocol"),
        (hc.MatrixProtocol, "must define matrix, got"),
        (changed(name="coin"), r"like local\.my-protocol, got 'coin'"),
        (changed(name="local.My_Coin"), "must be the trust model, a dot and words"),
        (changed(name="shuffle.coin"), r"like local\.my-protocol, got 'shuffle\.coin'"),
        (changed(name=7), "must be the trust model, a dot and words"),
        (changed(trust="local"), "`trust` must be a Trust"),
        (changed(tasks=hc.Count), "`tasks` must be a tuple"),
        (changed(tasks=()), "`tasks` must be a tuple"),
        (changed(tasks=(hc.Count, int)), "`tasks` must be a tuple"),
        (changed(name="local.k-ary"), "one of Headcount's own protocols, got 'local.k-ary'"),
        (changed(__annotations__={"sides": int}, sides=2), "must be a frozen dataclass"),
    ],
)
def test_what_is_no_protocol_is_refused(kind: Any, message: str) -> None:
    before = hc.protocol_names()
    with pytest.raises(hc.InvalidParameter, match=message):
        hc.register(kind)
    assert hc.protocol_names() == before


def test_options_need_defaults() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Sided(Coin):
        name = "local.sided"
        sides: int

    with pytest.raises(hc.InvalidParameter, match="options must have defaults, got 'sides'"):
        hc.register(Sided)

    @hc.register
    @dataclass(frozen=True)
    class Weighted(Coin):
        name = "local.weighted"
        odds: int = 3

        def matrix(self) -> Any:
            return [[self.odds, 1], [1, self.odds]]

    built = hc.protocol("local.weighted", hc.Count(), hc.Budget(2), CROWD, odds=7)
    assert isinstance(built, Weighted)
    assert built.local_epsilon == pytest.approx(math.log(7))


def test_a_name_stands_for_one_answer_to_a_task() -> None:
    hc.register(Coin)
    with pytest.raises(hc.InvalidParameter, match=r"got 'local\.coin' for a count again"):
        hc.register(type("Other", (Coin,), {}))

    class OfBuckets(Response):
        name = "local.coin"
        tasks: ClassVar[Any] = (hc.Histogram,)

    hc.register(OfBuckets)
    assert isinstance(hc.protocol("local.coin", THREE, BUDGET, CROWD), OfBuckets)
    assert isinstance(hc.protocol("local.coin", hc.Count(), hc.Budget(2), CROWD), Coin)
    with pytest.raises(hc.InvalidParameter, match="must be a count or histogram for local"):
        hc.protocol("local.coin", hc.Mean(0, 1), BUDGET, CROWD)


def test_a_class_that_is_defined_anew_takes_its_place() -> None:
    """A notebook does this. Nothing that was computed for the old class is used."""

    def define(truth: int) -> None:
        @hc.register
        class Again(Coin):
            name = "local.again"

            def matrix(self) -> Any:
                return [[truth, 1], [1, truth]]

    settings: tuple[Any, ...] = (hc.Count(), hc.Budget(1, 1e-6), hc.Crowd(2000))
    errors, amplified = [], []
    for truth in (2, 4):
        define(truth)
        errors.append(hc.plan(hc.Count(), hc.Budget(2), CROWD)["local.again"].standard_error)
        inside = hc.protocol("shuffle.amplified", *settings, local="local.again")
        amplified.append(inside.local_epsilon)
    assert errors[1] < errors[0]
    assert amplified == pytest.approx([math.log(2), math.log(4)])
    assert hc.protocol_names().count("local.again") == 1


def test_threads_may_register_at_the_same_time() -> None:
    refused: list[hc.InvalidParameter] = []
    start = threading.Barrier(8)

    def work(thread: int) -> None:
        start.wait()
        for number in range(20):
            hc.register(type(f"C{thread}-{number}", (Coin,), {"name": f"local.c{thread}-{number}"}))
            try:
                hc.register(type(f"D{thread}-{number}", (Coin,), {"name": f"local.d{number}"}))
            except hc.InvalidParameter as error:
                refused.append(error)
            assert f"local.c{thread}-{number}" in hc.protocol_names()

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = registry.outside_names()
    assert len(found) == 8 * 20 + 20
    assert len(refused) == 7 * 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_may_register() -> None:
    """It may have been forked while a thread was about to register."""
    with registry._outside._lock:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                hc.register(Coin)
                status = int("local.coin" not in hc.protocol_names())
            finally:
                os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# Plans and their cache --------------------------------------------------------------------------


def test_plans_kept_on_disk_hide_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADCOUNT_CACHE", str(tmp_path))
    before = hc.plan(THREE, BUDGET, CROWD)
    hc.register(Response)
    built: list[str] = []
    after = hc.plan(THREE, BUDGET, CROWD, keep=lambda one: built.append(one.name))
    assert built == ["local.my-response"]  # the others are known
    assert {one.protocol for one in after.candidates} == {
        "local.my-response",
        *(one.protocol for one in before.candidates),
    }
    registry._outside = Outside(reserved=registry._CLASSES)
    assert hc.plan(THREE, BUDGET, CROWD) == before


def test_answers_with_a_protocol_from_outside_inside_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headcount.planner.candidate import assess

    monkeypatch.setenv("HEADCOUNT_CACHE", str(tmp_path))
    hc.register(Coin)
    built: list[hc.Protocol] = []
    for local in ("local.coin", "local.coin", None, None):
        options: dict[str, Any] = {"local": local} if local else {}
        budget = hc.Budget(1, 1e-6)
        assess("shuffle.amplified", hc.Count(), budget, CROWD, keep=built.append, **options)
    assert len(built) == 3


def test_faults_of_other_code_spoil_no_plan() -> None:
    class Broken(Coin):
        name = "local.broken"

        def matrix(self) -> Any:
            raise KeyError("sides")

    class Boasting(Coin):
        name = "local.boasting"

        @property
        def randomizer(self) -> Any:
            return Coin(self.task, hc.Budget(2), self.crowd).randomizer

        @property
        def guarantee(self) -> hc.Guarantee:
            return Coin(self.task, hc.Budget(2), self.crowd).guarantee

        def law(self, value: Any) -> Any:
            return None

    hc.register(Broken)
    hc.register(Boasting)
    hc.register(Coin)
    found = hc.plan(hc.Count(), BUDGET, CROWD)
    reasons = {one.protocol: one.reason for one in found.refused}
    assert reasons["local.broken"] == "its code fails with KeyError: 'sides'"
    assert "its guarantee exceeds the budget" in reasons["local.boasting"]
    assert "does not satisfy epsilon=1, delta=0" in reasons["local.coin"]
    with pytest.raises(hc.Infeasible, match="must keep a local epsilon of"):
        hc.protocol(
            "shuffle.amplified", hc.Count(), hc.Budget(0.5, 1e-9), hc.Crowd(9), local=Boasting.name
        )


# Packages ---------------------------------------------------------------------------------------

PACKAGE = '''
import headcount as hc

print("loaded")


class PackedCoin(hc.MatrixProtocol):
    """It asks for names itself while it is loaded."""

    name = "local.packed-coin"
    tasks = (hc.Count,)
    known = len(hc.protocol_names())

    def matrix(self):
        odds = 2.718281828 ** self.budget.epsilon
        return [[odds / (1 + odds), 1 / (1 + odds)], [1 / (1 + odds), odds / (1 + odds)]]


def tallied(protocol, values):
    return protocol.tally(protocol.randomize(values, hc.SecureSource())).counts.tolist()


def stop():
    raise SystemExit(1)


def __getattr__(name):
    return stop() if name == "Stopping" else None
'''


def install(folder: Path, package: str, code: str, *points: str) -> None:
    """A distribution as pip installs it: a module, and metadata with entry points."""
    (folder / f"{package}.py").write_text(code)
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "\n".join(["[headcount.protocols]", *points])
    (metadata / "entry_points.txt").write_text(lines + "\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages with one package."""
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, "packed_coin", PACKAGE, "coin = packed_coin:PackedCoin")
    return folder


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(site)
    yield site
    for module in ("packed_coin", "packed_trouble"):
        sys.modules.pop(module, None)


@pytest.mark.usefixtures("installed")
def test_an_installed_package_is_found_when_names_are_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hc.protocol("local.k-ary", THREE, BUDGET, CROWD)
    assert capsys.readouterr().out == ""
    assert "local.packed-coin" in hc.protocol_names(hc.Count())
    hc.protocol("local.packed-coin", hc.Count(), BUDGET, CROWD)
    assert capsys.readouterr().out == "loaded\n"


class Elsewhere(DistributionFinder):
    """Finds packages in a folder that is not on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def find_spec(self, *_: Any) -> None:
        """Nothing: the modules are on the path."""

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        folders = DistributionFinder.Context(path=[self.folder])
        yield from MetadataPathFinder.find_distributions(folders)


@pytest.mark.parametrize("kind", ["egg-info", "archive", "egg", "finder"])
def test_packages_are_found_wherever_python_finds_them(
    site: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders are searched without `importlib.metadata`, but everything else is left to it."""
    (metadata,) = site.glob("*.dist-info")
    place = site
    if kind == "egg-info":
        metadata.rename(site / "packed_coin.egg-info")
    elif kind == "archive":
        place = Path(shutil.make_archive(str(site), "zip", site))
    elif kind == "egg":
        place = site.rename(site.with_name("packed_coin-1.0-py3.egg"))
        (place / metadata.name).rename(place / "EGG-INFO")
    elif kind == "finder":
        elsewhere = site.with_name("elsewhere")
        elsewhere.mkdir()
        metadata.rename(elsewhere / metadata.name)
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Elsewhere(elsewhere)])
    monkeypatch.syspath_prepend(place)
    assert "local.packed-coin" in hc.protocol_names(hc.Count())
    sys.modules.pop("packed_coin")


@pytest.mark.usefixtures("people")
def test_an_estimate_does_not_load_the_metadata_of_packages_without_protocols(site: Path) -> None:
    program = (
        "import sys; import headcount as hc; "
        "hc.estimate('people.csv', hc.Count(), column='smoker', budget=hc.Budget(1)); "
        "print('importlib.metadata' in sys.modules)"
    )
    assert command(site, "-c", program).stdout == "loaded\nTrue\n"
    (next(site.glob("*.dist-info")) / "entry_points.txt").write_text("[console_scripts]\n")
    assert command(site, "-c", program).stdout == "False\n"


def test_broken_packages_are_left_out_in_one_line(
    installed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    points = ["gone = packed_gone:Gone", "none = packed_trouble:Nobody", "number = math:pi"]
    points += ["stopping = packed_coin:Stopping", "taken = packed_trouble:Taken"]
    code = "from packed_coin import PackedCoin\nclass Taken(PackedCoin): pass\n"
    install(installed, "packed_trouble", code, *points)
    with caplog.at_level(logging.WARNING, "headcount"):
        hc.protocol("local.k-ary", THREE, BUDGET, CROWD)
        assert not caplog.messages
        for _ in range(3):
            assert hc.protocol_names()[-1] == "local.packed-coin"
    assert len(caplog.messages) == len(points)
    assert all("\n" not in line for line in caplog.messages)
    start = "headcount: the protocol gone of the package packed_trouble is left out: "
    assert any(
        line == start + "ModuleNotFoundError: No module named 'packed_gone'"
        for line in caplog.messages
    )


@pytest.mark.usefixtures("installed")
def test_damaged_metadata_break_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def damaged(**_: str) -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    monkeypatch.setattr("importlib.metadata.entry_points", damaged)
    assert hc.protocol_names() == list(registry._CLASSES)
    assert caplog.messages[0].startswith("headcount: protocols of installed packages are left out")


def command(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{Path(hc.__file__).parents[1]}"},
        cwd=site.parent,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.usefixtures("people")
def test_the_command_line_knows_an_installed_protocol(site: Path) -> None:
    (site / "packed_coin.py").write_text(PACKAGE.replace('print("loaded")', ""))
    done = command(site, "-m", "headcount", "estimate", "people.csv", *ARGUMENTS)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["protocol"] == "local.packed-coin"
    planned = command(site, "-m", "headcount", "plan", "count", "--users=999", "--epsilon=1")
    assert "local.packed-coin" in planned.stdout


def test_a_broken_package_is_one_line_of_the_command_line(site: Path) -> None:
    (site / "packed_coin.py").write_text("raise RuntimeError('not\\ntoday')\n")
    done = command(site, "-m", "headcount", "plan", "count", "--users=999", "--epsilon=1")
    assert done.returncode == 0
    assert done.stderr == (
        "headcount: the protocol coin of the package packed_coin is left out: "
        "RuntimeError: not today\n"
    )


@pytest.mark.parametrize(
    "program",
    [
        "import headcount",
        "import headcount as hc; hc.protocol('local.k-ary', hc.Histogram(3), hc.Budget(1), "
        "hc.Crowd(9)); hc.protocol('shuffle.amplified', hc.Count(), hc.Budget(1), hc.Crowd(9))",
        "import sys; sys.argv = ['headcount', '--help']; from headcount.cli.main import main; "
        "main()",
        "import sys; sys.argv = ['headcount', 'curve', '--help']; "
        "from headcount.cli.main import main; main()",
    ],
)
def test_nobody_looks_for_packages_at_the_start(site: Path, program: str) -> None:
    watch = "import importlib.metadata as m; m.entry_points = lambda **_: print('looked for'); "
    done = command(site, "-c", watch + program)
    assert (done.returncode, done.stderr) == (0, "")
    assert "looked for" not in done.stdout
    assert "loaded" not in done.stdout


@pytest.mark.usefixtures("installed")
def test_other_processes_take_an_installed_protocol() -> None:
    budget, crowd = hc.Budget(1, 1e-6), hc.Crowd(300)
    local = hc.protocol("local.packed-coin", hc.Count(), budget, crowd)
    shuffled = hc.protocol(
        "shuffle.amplified", hc.Count(), budget, crowd, local="local.packed-coin"
    )
    tallied = import_module("packed_coin").tallied
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for protocol in (local, shuffled):
            counts = pool.submit(tallied, protocol, [0, 1, 1] * 100).result()
            tally = hc.Tally(np.array(counts), 300, protocol.name)
            assert 200 in protocol.estimate(tally).interval(1 - 1e-9)
