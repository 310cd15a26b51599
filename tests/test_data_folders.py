"""Every file at a place is read, refused by name, or known not to be data. Nobody is left out."""

import bz2
import gzip
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import headcount as hc
from commands import Headcount
from headcount.data.columns import as_numpy
from headcount.data.files import file_rows

TEXT = "v,g\n" + "1,a\n" * 6 + "0,b\n" * 4
LINES = '{"v": 1, "g": "a"}\n' * 6 + '{"v": 0, "g": "b"}\n' * 4
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda data: packed(data, "zstd"),
    "lz4": lambda data: packed(data, "lz4"),
    "br": lambda data: packed(data, "brotli"),
}


def packed(data: bytes, kind: str) -> bytes:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, kind) as stream:
        stream.write(data)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def ones(place: Any) -> tuple[float, int]:
    found = hc.estimate(place, hc.Count(), column="v", budget=hc.Budget(500))
    assert isinstance(found, hc.Estimate)
    return float(found.value), found.users


def refusal(place: Any) -> str:
    with pytest.raises(hc.UnreadableData) as refused:
        hc.estimate(place, hc.Count(), column="v", budget=hc.Budget(500))
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    folder = tmp_path / "people"
    (folder / "north").mkdir(parents=True)
    (folder / "a.csv").write_text(TEXT)
    (folder / "north" / "b.csv").write_text(TEXT)
    return folder


@pytest.mark.parametrize("ending", PACKED)
def test_compressed_text_is_read_like_other_text(people: Path, ending: str) -> None:
    (people / f"c.csv.{ending}").write_bytes(PACKED[ending](TEXT.encode()))
    assert ones(people) == (18, 30)
    assert ones(str(people / "*.csv*")) == (12, 20)
    lines = people.parent / f"d.jsonl.{ending}"
    lines.write_bytes(PACKED[ending](LINES.encode()))
    assert ones(lines) == (6, 10)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_half_a_compressed_file_is_refused(people: Path, cut: int) -> None:
    whole = gzip.compress(TEXT.encode())
    (people / "c.csv.gz").write_bytes(whole[:-cut])
    assert f"{people / 'c.csv.gz'} must be a readable .csv file, got: " in refusal(people)


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "north/c.csv.xz": (lambda path: path.write_bytes(b"x"), "a file must end in .csv or .parquet"),
    "c.csv.zip": (lambda path: path.write_bytes(b"PK"), "a file must end in .csv or .parquet"),
    "c.parquet.gz": (lambda path: path.write_bytes(b"x"), "a file must end in .csv or .parquet"),
    "north/notes.txt": (lambda path: path.write_text("hi"), "a file must end in .csv or .parquet"),
    "c.csv": (lambda path: path.symlink_to("nowhere.csv"), "got a broken link"),
    "south": (lambda path: path.symlink_to("nowhere"), "got a broken link"),
    "north/d.csv": (os.mkfifo, "must be a file or folder, got something else"),
    "north/up": (
        lambda path: path.symlink_to(path.parent.parent),
        "a link to a folder that contains it",
    ),
    "north/x.csv": (
        lambda path: path.symlink_to("b.csv"),
        "must be different files, got two names of the same",
    ),
    "south/": (lambda path: path.symlink_to("north"), "must be different files, got two names"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(people: Path, name: str) -> None:
    make, says = REFUSED[name]
    make(people / name)
    for place in (people, str(people.parent / "pe*"), str(people / "**")):
        said = refusal(place)
        assert says in said
        assert str(people / name) in said


@pytest.fixture
def locked(people: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that may not be listed, even by an administrator."""
    (people / "north").chmod(0)
    listing = os.scandir

    def scandir(path: Any = ".") -> Any:
        if Path(os.fspath(path)).name == "north":
            raise PermissionError(13, "Permission denied", path)
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
    yield people
    (people / "north").chmod(0o700)


@pytest.mark.parametrize("pattern", ["", "*", "**", "*/*.csv", "**/*.csv", "n*/b.csv"])
def test_folders_that_cannot_be_listed_are_refused(locked: Path, pattern: str) -> None:
    said = refusal(str(locked / pattern))
    assert f"{locked / 'north'} must be a readable folder, got: " in said


def test_names_that_are_no_data(people: Path) -> None:
    """As in Spark and Arrow, files that are not data begin with a dot or an underscore."""
    (people / "_temporary").mkdir()
    (people / ".git").mkdir()
    for name in ("_SUCCESS", "_temporary/x.csv", ".a.csv.crc", ".git/x.csv", ".b.csv", "_c.csv"):
        (people / name).write_text(TEXT)
    (people / "_gone").symlink_to("nowhere")
    for place in (people, str(people / "**"), str(people.parent / "*")):
        assert ones(place) == (12, 20)
    assert ones(people / "_c.csv") == (6, 10)  # somebody asked for it
    assert ones(str(people / "_*.csv")) == (6, 10)
    (people / "_year=2020").mkdir()
    (people / "_year=2020" / "x.csv").write_text(TEXT)
    assert ones(people) == (18, 30)  # a partition


def test_a_linked_folder_is_read(people: Path) -> None:
    elsewhere = people.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "c.csv").write_text(TEXT)
    (people / "south").symlink_to(elsewhere)
    assert ones(people) == (18, 30)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_files_that_vanish_are_refused(tmp_path: Path, ending: str) -> None:
    for name in "ab":
        file = tmp_path / f"{name}.{ending}"
        if ending == "parquet":
            parquet.write_table(pyarrow.table({"v": [1, 0]}), file)
        else:
            file.write_text(TEXT if ending == "csv" else LINES)
    rows = file_rows(tmp_path)
    (tmp_path / f"b.{ending}").unlink()
    assert f"b.{ending}" in refusal(rows)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("lacking", ["a", "b", "c"])
def test_the_file_that_lacks_a_column_is_named(tmp_path: Path, ending: str, lacking: str) -> None:
    for name in "abc":
        file, column = tmp_path / f"{name}.{ending}", "w" if name == lacking else "v"
        if ending == "parquet":
            parquet.write_table(pyarrow.table({column: [1, 0]}), file)
        else:
            file.write_text((TEXT if ending == "csv" else LINES).replace("v", column))
    file = tmp_path / f"{lacking}.{ending}"
    assert f"{file} must have a column 'v', got w" in refusal(tmp_path)


def test_nothing_at_a_place(headcount: Headcount) -> None:
    for place in ("nofolder", "no.csv", "no*", "no/x.csv", ""):
        done = headcount("estimate", place, "--column", "v", "--epsilon", "1")
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
        if place:
            assert f"there must be a file or folder at '{place}', got none" in done.err


@pytest.mark.parametrize("small", [0, 10**6])
def test_small_row_groups_are_read_like_large_ones(
    tmp_path: Path, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Types follow the first file, columns of folders are there, and small batches are joined."""
    monkeypatch.setattr("headcount.data.files._SMALL", small)
    values: dict[str, list[Any]] = {"7": [0, 1] * 50, "a": [1] * 30, "b": [None, 0, 1] * 10}
    for place, kind in zip(values, ("int64", "int8", "int64"), strict=True):
        folder = tmp_path / f"g={place}"
        folder.mkdir()
        held = pyarrow.array(values[place], kind)
        table = pyarrow.table({"other": pyarrow.nulls(len(held)), "v": held})
        parquet.write_table(table, folder / "part.parquet", row_group_size=3)
    rows = file_rows(tmp_path)
    batches = [batch for batch, _ in rows.batches(["g", "v"], {})]
    assert len(batches) == 1
    assert batches[0].schema.types == [pyarrow.string(), pyarrow.int64()]
    listed = [(place, value) for place, held in values.items() for value in held]
    assert sorted(batches[0].to_pylist(), key=str) == sorted(
        ({"g": place, "v": value} for place, value in listed), key=str
    )
    found = hc.estimate(
        tmp_path, hc.Count(), column="v", group="g", missing="drop", budget=hc.Budget(500)
    )
    assert isinstance(found, hc.GroupedEstimate)
    assert {name: (one.value, one.users) for name, one in found.items()} == {
        "7": (50, 100), "a": (30, 30), "b": (10, 20),
    }  # fmt: skip


def test_bits_of_any_slice_are_read() -> None:
    bits = np.random.default_rng(1).integers(0, 2, 100).astype(bool)
    column = pyarrow.array(bits)
    for start in (0, 3, 8, 13):
        for stop in (start + 1, 50, 100):
            assert np.array_equal(as_numpy(column[start:stop]), bits[start:stop])


def test_one_parquet_file_is_read_row_by_row_in_order(tmp_path: Path) -> None:
    """A file is read ahead by a thread. Columns with similar names are not mixed up."""
    rows = 700_000
    columns = {"v.x": np.zeros(rows), "v": np.arange(rows), "u": [{"v": 1}] * rows}
    file = tmp_path / "v.parquet"
    parquet.write_table(pyarrow.table(columns), file, row_group_size=300_000)
    found = [as_numpy(batch.column("v")) for batch, _ in file_rows(file).batches(["v"], {})]
    assert np.array_equal(np.concatenate(found), np.arange(rows))
    shares = [share for _, share in file_rows(file).batches(["v"], {})]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) > 4


@pytest.mark.parametrize("size", [1000, 2**17])
def test_a_parquet_file_is_not_held_in_memory(tmp_path: Path, size: int) -> None:
    rows = 2**22
    parquet.write_table(
        pyarrow.table({"v": np.random.default_rng(1).random(rows)}),
        tmp_path / "v.parquet",
        row_group_size=size,
    )
    before, most, seen = pyarrow.total_allocated_bytes(), 0, 0
    for batch, _ in file_rows(tmp_path / "v.parquet").batches(["v"], {}):
        most = max(most, pyarrow.total_allocated_bytes() - before)
        seen += batch.num_rows
    assert seen == rows
    assert most < 8 * rows / 2


def test_damage_in_the_middle_of_a_parquet_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "v.parquet"
    parquet.write_table(pyarrow.table({"v": np.ones(10**6, np.int8)}), file, compression="snappy",
                        row_group_size=10**5, use_dictionary=False)  # fmt: skip
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 3000] = b"\xff" * 3000
    file.write_bytes(content)
    assert "v.parquet must be a readable .parquet file, got: " in refusal(file)
    file.write_bytes(b"PAR1 and nothing more")
    assert "v.parquet must be a readable .parquet file, got: " in refusal(file)
    parquet.write_table(pyarrow.table({"v": np.ones(0, np.int8)}), file)
    with pytest.raises(hc.InvalidValue, match="at least one row"):
        ones(file)


def test_a_single_file_in_a_folder_of_a_key_has_the_key(tmp_path: Path) -> None:
    (tmp_path / "g=a").mkdir()
    parquet.write_table(pyarrow.table({"v": [1, 1, 0]}), tmp_path / "g=a" / "v.parquet")
    found = hc.estimate(
        tmp_path / "g=a" / "v.parquet", hc.Count(), column="v", group="g", budget=hc.Budget(500)
    )
    assert [*found] == ["a"]
