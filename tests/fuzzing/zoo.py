"""A folder with files of every kind that commands read, intact and damaged, and with places that
are not files. It also finds what a run changed.
"""

import io
import json
import os
import random
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyarrow
from pyarrow import parquet

from fuzzing.runs import Nursery, Run

BOX = "box"  # the folder in which commands run; beside it are their home and temporary files
SPARSE = 8 * 2**30  # the bytes of a file that is read without end


class Thing(NamedTuple):
    """The thing at a place. A file has `content`, and a link has a `target`."""

    kind: str = "file"  # or folder, link, pipe, zeros, full, sparse
    content: bytes = b""
    target: str = ""
    mode: int = 0o644


@dataclass(frozen=True)
class Change:
    """What a run did to a place."""

    what: str  # "new", "changed" or "gone"
    path: str


class Zoo:
    """A folder with all things. It is restored after each run."""

    def __init__(self, root: Path, things: Mapping[str, Thing]) -> None:
        self.root, self.box, self.things = root, root / BOX, dict(things)
        for folder in (self.box, root / "home", root / "tmp"):
            folder.mkdir()
        for name in self.things:
            self._put(name)
        self._before = _marks(root)

    def environment(self, **others: str) -> dict[str, str]:
        return {
            "PATH": os.defpath,
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "LANG": "C.UTF-8",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HEADCOUNT_CACHE": str(self.root / "home" / "cache"),
            **others,
        }

    def changes(self) -> list[Change]:
        """All changes. The cache of plans is ignored, and names are relative to the folder of
        commands.
        """
        now = _marks(self.root)
        found = []
        for path in sorted(self._before.keys() | now.keys()):
            if self._before.get(path) == now.get(path) or path.startswith("home/cache"):
                continue
            name = os.path.relpath(path, BOX)
            if path not in self._before:
                found.append(Change("new", name))
            elif path not in now:
                found.append(Change("gone", name))
            elif not self._same(name):
                found.append(Change("changed", name))
        return found

    def tidy(self) -> None:
        """Restore everything."""
        now = _marks(self.root)
        differ = [path for path in now.keys() | self._before.keys()
                  if now.get(path) != self._before.get(path)
                  and not path.startswith("home/cache")]  # fmt: skip
        for path in sorted(differ, reverse=True):
            place = self.root / path
            if place.is_dir() and not place.is_symlink():
                place.chmod(0o755)
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
        for path in sorted(differ):
            if path in self._before:
                self._put(os.path.relpath(path, BOX))
        self._before = _marks(self.root)

    def _same(self, name: str) -> bool:
        thing, place = self.things.get(name), self.box / name
        if thing is None or stat.S_IMODE(place.lstat().st_mode) != thing.mode:
            return thing is not None and thing.kind == "link" and self._linked(name, thing)
        if thing.kind == "file":
            return (
                place.is_file() and not place.is_symlink() and place.read_bytes() == thing.content
            )
        return False

    def _linked(self, name: str, thing: Thing) -> bool:
        place = self.box / name
        return place.is_symlink() and os.fspath(place.readlink()) == thing.target

    def _put(self, name: str) -> None:
        thing, place = self.things[name], self.box / name
        if thing.kind == "folder":
            place.mkdir(exist_ok=True)
            inside = [other for other in self.things if other.startswith(f"{name}/")]
            for other in inside:
                if not os.path.lexists(self.box / other):
                    self._put(other)
            place.chmod(thing.mode)
            return
        if os.path.lexists(place):
            return
        closed = place.parent if not os.access(place.parent, os.W_OK) else None
        if closed:
            closed.chmod(0o755)
        _make(thing, place)
        if thing.kind != "link":
            place.chmod(thing.mode)
        if closed:
            closed.chmod(self.things[str(closed.relative_to(self.box))].mode)


def _make(thing: Thing, place: Path) -> None:
    if thing.kind == "file":
        place.write_bytes(thing.content)
    elif thing.kind == "link":
        place.symlink_to(thing.target)
    elif thing.kind == "pipe":
        os.mkfifo(place)
    elif thing.kind == "sparse":
        with place.open("wb") as file:
            file.truncate(SPARSE)
    else:
        device = {"zeros": os.makedev(1, 5), "full": os.makedev(1, 7)}[thing.kind]
        try:  # our own devices: if a file replaces one, the machine's devices are unharmed
            os.mknod(place, 0o666 | stat.S_IFCHR, device)
        except PermissionError:
            place.symlink_to({"zeros": "/dev/zero", "full": "/dev/full"}[thing.kind])


def _marks(root: Path) -> dict[str, tuple[int, ...]]:
    """For every place below, a mark that changes when the place changes."""
    found: dict[str, tuple[int, ...]] = {}
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except PermissionError:
            continue
        for entry in entries:
            at = entry.stat(follow_symlinks=False)
            path = os.path.relpath(entry.path, root)
            if entry.is_dir(follow_symlinks=False):
                found[path] = (at.st_mode,)
                folders.append(Path(entry.path))
            else:
                found[path] = (at.st_mode, at.st_size, at.st_mtime_ns, at.st_ctime_ns, at.st_ino)
    return found


# The things.

COLUMNS = ("who", "smoker", "age", "color", "city", "gap", "weight")
COLORS = ("red", "green", "blue")
_ROWS = 240
FUNCTIONS = (
    "lie", "law", "many", "chatty", "fails", "leaves", "nothing", "deep", "huge", "odd", "leak",
    "text", "nan", "wide", "NUMBER", "absent",
)  # fmt: skip
_MINE = """
import random
from fractions import Fraction
NUMBER = 3
def lie(data):
    return data[0] if random.random() < 0.75 else 1 - data[0]
def law(value):
    return {((value, 1),): Fraction(3, 4), ((1 - value, 1),): Fraction(1, 4)}
def many(data, count):
    return [lie(data) for _ in range(count)]
def chatty(data):
    print("chatter")
    return lie(data)
def fails(data):
    raise RuntimeError("it fails")
def leaves(data):
    raise SystemExit(7)
def nothing(data):
    return None
def deep(data):
    found = []
    for _ in range(2000):
        found = [found]
    return found
def huge(data):
    return 10**400
def odd(data):
    return [{}]
def leak(data):
    return data[0]
def text(data):
    return "\\udcff" if data[0] else "a"
def nan(data):
    return float("nan") if data[0] else 1.0
def wide(data):
    return [0.5] * 3 if data[0] else [0.5] * 2
"""


@cache
def _rows() -> list[dict[str, object]]:
    chance = random.Random(11)
    return [
        {
            "who": f"p{chance.randrange(90)}",
            "smoker": chance.randrange(2),
            "age": chance.randrange(100),
            "color": chance.choice(COLORS),
            "city": chance.choice(("Ulm", "Bonn")),
            "gap": None if at % 10 == 0 else at % 2,
            "weight": round(chance.uniform(40, 120), 1),
        }
        for at in range(_ROWS)
    ]


def _csv(rows: list[dict[str, object]]) -> bytes:
    lines = [
        ",".join("" if row[name] is None else str(row[name]) for name in COLUMNS) for row in rows
    ]
    return "\n".join([",".join(COLUMNS), *lines, ""]).encode()


def _jsonl(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _parquet(rows: list[dict[str, object]]) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), buffer, row_group_size=100)
    return buffer.getvalue()


def _made(nursery: Nursery) -> dict[str, bytes]:
    """Things that only commands can make: plans, ledgers and a cache."""
    people = ("people.csv", "--column", "smoker", "--epsilon", "0.5")
    lines = (
        ("plan", "count", "--users", "240", "--epsilon", "1", "--delta", "1e-6", "--trust",
         "shuffle", "--out", "plan.json"),
        ("plan", "histogram", "--buckets", "red,green,blue", "--users", "240", "--epsilon", "1",
         "--trust", "central", "--out", "colors.json"),
        ("plan", "count", "--users", "100000", "--epsilon", "1", "--protocol",
         "local.randomized-response", "--out", "crowded.json"),
        ("ledger", "create", "spent.db", "--dataset", "people", "--epsilon", "10", "--delta",
         "1e-3"),
        ("ledger", "create", "two.db", "--dataset", "people", "--epsilon", "3"),
        ("ledger", "create", "two.db", "--dataset", "größe; --", "--epsilon", "3"),
        ("ledger", "create", "tight.db", "--dataset", "people", "--epsilon", "0.6"),
        ("ledger", "create", "new.db", "--dataset", "people", "--epsilon", "5", "--delta", "1e-6"),
        ("ledger", "create", "spent.json", "--dataset", "people", "--epsilon", "5"),
        ("estimate", *people, "--ledger", "spent.db"),
        ("estimate", *people, "--ledger", "spent.db", "--delta", "1e-5", "--trust", "shuffle"),
        ("estimate", *people, "--ledger", "tight.db"),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "people.csv").write_bytes(_csv(_rows()))
        environment = {"LANG": "C.UTF-8", "HEADCOUNT_CACHE": str(folder)}
        for line in lines:
            ended = nursery.run(Run(line, place, environment))
            assert ended.status == 0, (line, ended)
        return {
            path.name: path.read_bytes()
            for path in sorted(folder.iterdir())
            if path.suffix in (".json", ".db", ".sqlite")
        }


def _flipped(content: bytes, seed: int, bits: int) -> bytes:
    chance, found = random.Random(seed), bytearray(content)
    for _ in range(bits):
        at = chance.randrange(len(found))
        found[at] ^= 1 << chance.randrange(8)
    return bytes(found)


def _damaged(name: str, content: bytes) -> dict[str, bytes]:
    """Copies of a file that are damaged in typical ways. Each keeps its suffix."""
    stem, dot, suffix = name.rpartition(".")
    ways = {
        "half": content[: len(content) // 2],
        "tail": content[len(content) // 2 :],
        "short": content[:-3],
        "byte": content[:1],
        "flip1": _flipped(content, 1, 1),
        "flip2": _flipped(content, 2, 1),
        "flip40": _flipped(content, 3, 40),
        "twice": content + content,
    }
    return {f"{stem}-{way}{dot}{suffix}": damaged for way, damaged in ways.items()}


def things(nursery: Nursery) -> dict[str, Thing]:
    """All things by name. A folder comes before its contents."""
    rows = _rows()
    csv, jsonl, table = _csv(rows), _jsonl(rows), _parquet(rows)
    made = _made(nursery)
    cache_file = made.pop("plans.sqlite")
    whole = {"people.csv": csv, "people.parquet": table, "people.jsonl": jsonl, **made}
    files = dict(whole)
    for name in ("people.csv", "people.parquet", "people.jsonl", "plan.json", "spent.db"):
        files |= _damaged(name, whole[name])
    files |= _texts(csv, jsonl, table, whole["plan.json"])
    files["mine.py"] = _MINE.encode()
    files["größe.csv"] = files["spa ce.csv"] = files["-dash.csv"] = csv
    files["line\nbreak.csv"] = files["*.csv"] = files[os.fsdecode(b"\xff\xfe.csv")] = csv
    files["old.json"] = b'{"an": "old answer"}\n'
    files["old.html"] = b"<html>an old answer</html>\n"
    found = {name: Thing(content=content) for name, content in files.items()}
    pieces = {f"{at}.csv": _csv(rows[at::3]) for at in range(3)}
    folders = {
        "parts": pieces,
        "lacking": {**pieces, "z.csv": b"age\n1\n"},
        "mixed": {**pieces, "a.parquet": table, "b.csv.gz": b"\x1f\x8b"},
        "hive": {},
        "empty": {},
        "folder.csv": {"x": b""},
        "folder.json": {},
        "cache": {"plans.sqlite": cache_file},
        "cache-flip": {"plans.sqlite": _flipped(cache_file, 4, 60)},
        "cache-half": {"plans.sqlite": cache_file[: len(cache_file) // 2]},
        "deep": {},
        "locked": pieces,
        "readonly": pieces,
    }
    modes = {"locked": 0o000, "readonly": 0o555}
    for folder, inside in folders.items():
        found[folder] = Thing("folder", mode=modes.get(folder, 0o755))
        found |= {f"{folder}/{name}": Thing(content=content) for name, content in inside.items()}
    found["hive/city=Ulm"] = found["deep/er"] = Thing("folder", mode=0o755)
    found["hive/city=Ulm/a.parquet"] = Thing(content=table)
    found["deep/er/people.csv"] = Thing(content=csv)
    found["deep/locked"] = Thing("folder", mode=0o000)
    found["deep/locked/people.csv"] = Thing(content=csv)
    return found | {
        "locked.csv": Thing(content=csv, mode=0o000),
        "locked.json": Thing(content=whole["plan.json"], mode=0o000),
        "locked.db": Thing(content=whole["spent.db"], mode=0o000),
        "readonly.db": Thing(content=whole["spent.db"], mode=0o444),
        "readonly.json": Thing(content=whole["plan.json"], mode=0o444),
        "link.csv": Thing("link", target="people.csv"),
        "link.json": Thing("link", target="plan.json"),
        "link.db": Thing("link", target="spent.db"),
        "old-link.json": Thing("link", target="old.json"),
        "loop.csv": Thing("link", target="loop.json"),
        "loop.json": Thing("link", target="loop.csv"),
        "loop.db": Thing("link", target="loop.db"),
        "broken.csv": Thing("link", target="nowhere/at-all.csv"),
        "broken.json": Thing("link", target="nowhere/at-all.json"),
        "broken.db": Thing("link", target="nowhere/at-all.db"),
        "circle": Thing("link", target="."),
        "pipe.csv": Thing("pipe"),
        "pipe.json": Thing("pipe"),
        "pipe.db": Thing("pipe"),
        "pipe.py": Thing("pipe"),
        "zeros.csv": Thing("zeros", mode=0o666),
        "zeros.json": Thing("zeros", mode=0o666),
        "zeros.db": Thing("zeros", mode=0o666),
        "full.json": Thing("full", mode=0o666),
        "sparse.json": Thing("sparse"),
        "sparse.csv": Thing("sparse"),
    }


def _texts(csv: bytes, jsonl: bytes, table: bytes, plan: bytes) -> dict[str, bytes]:
    """Empty, damaged and unusual texts and tables."""
    rows = csv.split(b"\n")
    digits = b"9" * 5000
    return {
        "empty.csv": b"",
        "empty.json": b"",
        "empty.db": b"",
        "empty.parquet": b"",
        "empty.py": b"",
        "heading.csv": rows[0] + b"\n",
        "crlf.csv": csv.replace(b"\n", b"\r\n"),
        "cr.csv": csv.replace(b"\n", b"\r"),
        "bom.csv": b"\xef\xbb\xbf" + csv,
        "utf16.csv": csv.decode().encode("utf-16"),
        "latin.csv": csv.replace(b"Ulm", "Köln".encode("latin-1")),
        "latin-header.csv": csv.replace(b"color", "größe".encode("latin-1"), 1),
        "quoted.csv": csv.replace(b"red", b'"r\ne""d"'),
        "unquoted.csv": csv.replace(b"red", b'"red', 1),
        "nul.csv": csv.replace(b"red", b"red\0"),
        "nuls.csv": b"\0" * 4096,
        "ragged.csv": csv.replace(b",Ulm,", b",Ulm", 1),
        "twins.csv": csv.replace(b"color", b"smoker", 1),
        "nameless.csv": b"," + csv.replace(b"\n", b"\n0,"),
        "wide.csv": rows[0] + b"\n" + b"p1,1,1," + b"x" * 300_000 + b",Ulm,1,1\n",
        "digits.csv": rows[0] + b"\np1," + digits + b",1,red,Ulm,1," + digits + b"\n",
        "odd.csv": rows[0] + b"\np1,nan,inf,,Ulm,1,-0\np2,1e400,-5,NULL,,0,1e-400\n",
        "yes.csv": b"smoker,age\nyes,ten\nno,\ntrue,1.5\n",
        "table.csv": table,
        "plan.csv": plan,
        "spent.csv": b"SQLite format 3\0" + b"\0" * 2000,
        "people.txt": csv,
        "text.parquet": csv,
        "PAR1.parquet": b"PAR1" + b"\xff" * 100 + b"PAR1",
        "crlf.jsonl": jsonl.replace(b"\n", b"\r\n"),
        "array.json": b"[" + jsonl.strip().replace(b"\n", b",\n") + b"]",
        "nested.jsonl": b'{"smoker": {"a": 1}, "color": [1]}\n',
        "types.jsonl": b'{"smoker": 1}\n{"smoker": "one"}\n{"smoker": null}\n{}\n',
        "twins.jsonl": b'{"smoker": 1, "smoker": 0}\n',
        "latin.jsonl": jsonl.replace(b"Ulm", "Köln".encode("latin-1")),
        "surrogate.jsonl": jsonl.replace(b"Ulm", rb"\ud800"),
        "deep.jsonl": b'{"smoker": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        "deep.json": b"[" * 100_000 + b"]" * 100_000,
        "deep-object.json": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "digits.json": plan.replace(b"240", digits, 1),
        "digits.jsonl": b'{"smoker": ' + digits + b"}\n",
        "nan.json": plan.replace(b"240", b"NaN", 1),
        "infinite.json": plan.replace(b"1.0", b"1e999", 1),
        "null.json": b"null",
        "list.json": b"[]",
        "number.json": b"1e5",
        "changed.json": plan.replace(b"240", b"241"),
        "other.json": plan.replace(b"headcount.plan", b"something.else"),
        "future.json": plan.replace(b'"version": 2', b'"version": 99'),
        "utf16.json": plan.decode().encode("utf-16"),
        "twice.json": plan.replace(b'"version": 2', b'"version": 2, "version": 2'),
        "text.db": csv,
        "table.db": table,
        "syntax.py": b"def lie(:\n",
        "latin.py": "# ö\n".encode("latin-1"),
        "fails.py": b"raise RuntimeError('while loading')\n",
        "leaves.py": b"import sys\nsys.exit(3)\n",
        "binary.py": table,
        "nul.py": b"x = 1\0\n",
        "deep.py": b"x = " + b"(" * 5000 + b")" * 5000 + b"\n",
        "interrupts.py": b"raise KeyboardInterrupt\n",
    }
