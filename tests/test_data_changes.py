"""Files that are replaced, changed or deleted while they are read give no answer."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import feather, parquet

import headcount as hc
from headcount.data import local

ROWS = 40_000


def write_csv(path: Path, value: float) -> None:
    path.write_text("v\n" + f"{value}\n" * ROWS)


def write_lines(path: Path, value: float) -> None:
    path.write_text(f'{{"v": {value}}}\n' * ROWS)


def write_parquet(path: Path, value: float) -> None:
    parquet.write_table(pyarrow.table({"v": [value] * ROWS}), path)


def write_arrow(path: Path, value: float) -> None:
    feather.write_feather(pyarrow.table({"v": [value] * ROWS}), str(path))


WRITERS: dict[str, Callable[[Path, float], None]] = {
    "csv": write_csv,
    "jsonl": write_lines,
    "parquet": write_parquet,
    "feather": write_arrow,
}


def replaced(path: Path) -> None:
    """Another file of the same size takes the place of the file, as a job would replace it."""
    new = path.with_name("_new." + path.name)
    WRITERS[path.suffix[1:]](new, 0.25)
    new.rename(path)


def vanished(path: Path) -> None:
    path.unlink()


def appended(path: Path) -> None:
    with path.open("ab") as file:
        file.write(path.read_bytes()[-4:])


def asked(place: Path, step: str, change: Callable[[], None], **settings: Any) -> str:
    """The refusal if a file changes at this step of an estimate."""
    changed: list[bool] = []

    def progress(name: str, share: float) -> None:
        if name == step and not changed:
            changed.append(True)
            change()

    with pytest.raises(hc.UnreadableData) as refused:
        hc.estimate(
            place, hc.Mean(0, 1), column="v", budget=hc.Budget(1), progress=progress, **settings
        )
    assert "\n" not in str(refused.value)
    return refused.value.message


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("change", [replaced, vanished, appended])
@pytest.mark.parametrize("at", [0, 2, None])
def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, kind: str, change: Callable[[Path], None], at: int | None
) -> None:
    """The file is the first or the last of a folder, or the only one."""
    files = [tmp_path / f"day-{day}.{kind}" for day in range(3)]
    for file in files:
        WRITERS[kind](file, 0.75)
    changed = files[at or 0]
    said = asked(changed if at is None else tmp_path, "reading", lambda: change(changed))
    assert said.startswith(str(changed))
    assert said.endswith("vanished" if change is vanished else "it changed while it was read")


def test_a_file_that_changes_between_the_two_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_KEPT", 0)
    file = tmp_path / "people.csv"
    write_csv(file, 0.75)
    said = asked(file, "calibrating", lambda: replaced(file), trust="local")
    assert said.endswith("it changed while it was read")


def test_a_file_that_is_read_or_linked_meanwhile_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    write_csv(file, 0.75)

    def touch(name: str, share: float) -> None:
        file.read_bytes()
        if not (tmp_path / "link").exists():
            os.link(file, tmp_path / "link")

    hc.estimate(file, hc.Mean(0, 1), column="v", budget=hc.Budget(1), progress=touch)
