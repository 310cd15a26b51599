"""`headcount guide` opens the guide, or copies it."""

import json
import webbrowser
from pathlib import Path

import pytest

from commands import Headcount
from headcount.guide import files


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was asked to open."""
    asked: list[str] = []

    def open_page(url: str) -> bool:
        asked.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", open_page)
    return asked


def test_guide_opens_the_page(headcount: Headcount, opened: list[str]) -> None:
    answer = headcount("guide")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out == f"page: {files.FOLDER / 'index.html'}\n"
    assert opened == [(files.FOLDER / "index.html").as_uri()]


def test_guide_only_says_where_it_is(headcount: Headcount, opened: list[str]) -> None:
    answer = headcount("guide", "--no-open", "--json")
    assert json.loads(answer.out) == {"page": str(files.FOLDER / "index.html")}
    assert not opened


def test_guide_is_copied(headcount: Headcount, opened: list[str], tmp_path: Path) -> None:
    answer = headcount("guide", "--out", "some/where")
    assert answer.out == "page: some/where/index.html\n"
    copied = {path.name: path.read_bytes() for path in (tmp_path / "some" / "where").iterdir()}
    assert copied == {path.name: path.read_bytes() for path in files.FOLDER.iterdir()}
    assert not opened


def test_without_a_browser_the_page_is_named(
    headcount: Headcount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    answer = headcount("guide")
    assert answer.status == 0
    assert "index.html" in answer.out
    assert "open this page yourself" in answer.err
    assert not headcount("guide", "--quiet").err


def test_refusals_take_one_line(
    headcount: Headcount, opened: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    refused = headcount("guide", "--out", "file")
    assert refused.status == 2
    assert len(refused.err.strip().splitlines()) == 1
    monkeypatch.setattr(files, "FOLDER", tmp_path / "nowhere")
    for words in ((), ("--no-open",), ("--out", "copy")):
        refused = headcount("guide", *words)
        assert refused.status == 2
        assert len(refused.err.strip().splitlines()) == 1
        assert "make guide" in refused.err
    assert not opened
    assert not (tmp_path / "copy").exists()
