"""The commands of a collection: keys and their states, waves, codes, closing, and results."""

import json
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from collection import analyzer, shuffler
from commands import Headcount
from headcount.collect import keys
from headcount.collect.client import response
from headcount.collect.document import Document
from headcount.collect.shuffler import Sent, Shuffler
from test_collection import handed_to

SURVEY = """
title = "Class"

[privacy]
trust = "local"
epsilon = 2
least_people = 5
waves = 2

[[question]]
id = "smoke"
text = "Do you smoke?"
kind = "yes-no"
"""


@pytest.fixture(autouse=True)
def no_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADCOUNT_PASSPHRASE", raising=False)


def test_a_key_is_made_without_a_passphrase_only_on_request(
    headcount: Headcount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "analyzer"
    refused = headcount("analyzer", "init", "analyzer")
    assert refused.status == 2
    assert "a passphrase must protect the key" in refused.err
    assert not folder.exists()
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert headcount("analyzer", "init", "analyzer", "--passphrase-file", "empty").status == 2
    loud = headcount("analyzer", "init", "analyzer", "--no-passphrase")
    assert loud.status == 0
    assert "WARNING: the key has no passphrase" in loud.err
    monkeypatch.setenv("HEADCOUNT_PASSPHRASE", "open sesame")
    quiet = headcount("analyzer", "init", "other")
    assert (quiet.status, quiet.err) == (0, "")
    assert b"ENCRYPTED" in (tmp_path / "other" / "private.pem").read_bytes()
    assert (tmp_path / "other" / "token").stat().st_mode & 0o777 == 0o600
    assert keys.state(folder) == keys.state(tmp_path / "other") == "pending"


def opened_wave(headcount: Headcount, folder: Path, wave: int) -> Document:
    (folder / "class.toml").write_text(SURVEY)
    path = folder / f"wave-{wave}.json"
    done = headcount(
        "survey", "open", "class.toml", "--key", "analyzer/key.json", "--shuffler", "http://s",
        "--analyzer", "http://a", "--wave", str(wave), "--out", path.name,
    )  # fmt: skip
    assert done.status == 0, done.err
    assert "responses in all 2 waves: epsilon 2" in done.out
    return Document.load(path)


def handed_over(one: Shuffler | None, folder: Path, survey: Document, *, count: bool) -> None:
    """Hand a batch over to the analyzer in a folder as `headcount analyzer serve` would take it."""
    keys.activate(folder)
    other = analyzer(folder)
    other.register(survey)
    if one is not None:
        one.forward(survey.digest, handed_to(other))
    if count:
        other.count(survey.digest)
    other.store.close()


def test_a_key_lives_as_long_as_its_surveys(headcount: Headcount, tmp_path: Path) -> None:
    """From making the key to destroying it, with two waves of one survey."""
    folder = tmp_path / "analyzer"
    assert headcount("analyzer", "init", "analyzer", "--no-passphrase").status == 0
    waves = [opened_wave(headcount, tmp_path, wave) for wave in (1, 2)]
    assert len({survey.digest for survey in waves}) == 2
    for survey in waves:
        one = shuffler(tmp_path)
        one.register(survey)
        refused = headcount("shuffler", "close", survey.digest, "--store", "shuffler.db")
        assert refused.status == 1
        assert "at least 5 people" in refused.err
        made = headcount(
            "shuffler", "codes", survey.digest, "--store", "shuffler.db", "--count", "5",
            "--out", "codes.txt",
        )  # fmt: skip
        assert made.status == 0, made.err
        sent = [
            Sent(survey.digest, response(survey, {"smoke": "yes"}, hc.SecureSource()), code)
            for code in (tmp_path / "codes.txt").read_text().split()
        ]
        assert one.accept(sent) == ["stored"] * 5
        assert headcount("shuffler", "close", survey.digest, "--store", "shuffler.db").status == 0
        refused = headcount("analyzer", "results", "analyzer", survey.digest)
        assert refused.status == 2
        assert keys.state(folder) == ("pending" if survey is waves[0] else "active")
        handed_over(one, folder, survey, count=survey is waves[0])
    refused = headcount("analyzer", "destroy", "analyzer", "--yes")
    assert refused.status == 2
    assert waves[1].digest in refused.err
    assert keys.state(folder) == "active"
    handed_over(None, folder, waves[1], count=True)
    destroyed = headcount("analyzer", "destroy", "analyzer", "--yes")
    assert destroyed.status == 0, destroyed.err
    assert keys.state(folder) == "destroyed"
    assert not (folder / "private.pem").exists()
    for number, survey in enumerate(waves, start=1):
        shown = headcount("analyzer", "results", "analyzer", survey.digest, "--json")
        found: dict[str, Any] = json.loads(shown.out)
        assert (found["wave"], found["people"]) == (number, 5)
