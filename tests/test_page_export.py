"""`headcount survey export`: the page for browsers as static files."""

import json
from pathlib import Path

import pytest

import headcount as hc
from commands import Headcount
from headcount.collect import keys, page_files
from headcount.collect.document import Addresses, Document
from headcount.collect.page_files import export_page
from headcount.survey.questions import YesNo
from headcount.survey.survey import Survey


def document(folder: Path, shuffler: str = "https://mix.example:8443/here") -> Document:
    asked = (YesNo("smoke", "Do you smoke?"),)
    survey = Survey(asked, hc.Budget(1), hc.Trust.LOCAL, 10)
    return Document.of(survey, keys.create(folder, None), Addresses(shuffler, "https://b.example"))


def test_the_page_may_reach_only_its_shuffler(headcount: Headcount, tmp_path: Path) -> None:
    survey = document(tmp_path / "key")
    survey.save(tmp_path / "campus.json")
    done = headcount("survey", "export", "campus.json", "--out", "site", "--json")
    page = f"index.html#survey={survey.digest}"
    assert json.loads(done.out) == {"survey": survey.digest, "folder": "site", "page": page}
    files = {path.name for path in (tmp_path / "site").iterdir()}
    assert files == {"index.html", "respond.css", "respond.js", "icon.svg", "survey.json"}
    assert (tmp_path / "site" / "survey.json").read_bytes() == survey.data
    text = (tmp_path / "site" / "index.html").read_text()
    assert "connect-src 'self' https://mix.example:8443;" in text
    assert text.count("https://") == 1
    assert "unsafe" not in text


def test_addresses_that_would_change_the_policy_are_refused(tmp_path: Path) -> None:
    survey = document(tmp_path / "key", "https://mix.example;script-src *")
    with pytest.raises(hc.InvalidParameter, match="must be that of a host"):
        export_page(survey, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_refusals_take_one_line(
    headcount: Headcount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "junk.json").write_text("{}")
    survey = document(tmp_path / "key")
    survey.save(tmp_path / "campus.json")
    (tmp_path / "file").write_text("")
    for words in (("junk.json", "--out", "site"), ("campus.json", "--out", "file")):
        refused = headcount("survey", "export", *words)
        assert refused.status
        assert len(refused.err.strip().splitlines()) == 1
    monkeypatch.setattr(page_files, "FOLDER", tmp_path / "nowhere")
    page_files.page_file.cache_clear()
    refused = headcount("survey", "export", "campus.json", "--out", "site")
    page_files.page_file.cache_clear()
    assert refused.status
    assert "make browser" in refused.err
