"""A wheel has the pages, and is not built without them."""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from browsing import ROOT

BUILT = ("src/headcount/collect/pages", "src/headcount/guide/pages")


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    alone = ["--no-build-isolation"] if find_spec("hatchling") else []
    return subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", *alone, "--wheel-dir", str(out), "."],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
def test_a_wheel_has_all_pages_or_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "source"
    place.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, place)
    shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__"))
    done = build(place, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(ZipFile(wheel).namelist())
    for folder in BUILT:
        pages = list((ROOT / folder).iterdir())
        assert pages, "run `make browser guide` first"
        assert {f"{folder.removeprefix('src/')}/{page.name}" for page in pages} <= names
    wheel.unlink()
    for folder, command in zip(BUILT, ("make browser", "make guide"), strict=True):
        (place / folder).rename(tmp_path / "aside")
        done = build(place, tmp_path)
        assert done.returncode != 0
        assert command in done.stdout + done.stderr
        assert not list(tmp_path.glob("*.whl"))
        (tmp_path / "aside").rename(place / folder)
