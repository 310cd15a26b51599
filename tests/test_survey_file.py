"""The survey file: a good one, and wrong ones. Each error has its line and a fix."""

from pathlib import Path

import pytest

import headcount as hc
from headcount.survey import file

GOOD = """\
title = "Campus health"

[privacy]
trust = "shuffle"
epsilon = 2
delta = 1e-8
least_people = 300

[[question]]
id = "smoke"
text = "Do you smoke?"
kind = "yes-no"

[[question]]
id = "drugs"
text = \"\"\"
Which of these
kind = "did you take"?
\"\"\"
kind = "several"
choices = [
    "cannabis",  # ]
    "opioids",
    "other",
]
at_most = 2
optional = true

[[question]]
id = "partners"
text = "How many?"
kind = "number"
low = 0
high = 50
whole = true
want = ["mean", "quantiles"]

[[table]]
of = ["smoke", "sleep"]

[[question]]
id = "sleep"
text = "How well?"
kind = "scale"
low = 1
high = 5
"""

# What is replaced in the good file, by what, the line of the error, and words of its message.
WRONG = [
    ('title = "Campus health"', "title = Campus health", 1, "put text in"),
    ('title = "Campus health"', 'title = "Campus health', 1, "quotation mark"),
    ('title = "Campus health"', "title = 5", 1, "`title` must be text, got 5"),
    ('title = "Campus health"', 'titel = "Campus health"', 1, "did you mean 'title'?"),
    ('trust = "shuffle"', 'trust = "shuffel"', 4, "central, shuffle, local"),
    ('trust = "shuffle"', "", 3, "must have the key trust"),
    ("epsilon = 2", "epsilon = 0", 5, "`epsilon` must be"),
    ("epsilon = 2", 'epsilon = "2"', 5, "`epsilon` must be a real number"),
    ("epsilon = 2", "eps = 2", 5, "did you mean 'epsilon'?"),
    ("epsilon = 2", "epsilon = 2\nepsilon = 3", 6, "only once"),
    ("delta = 1e-8", "delta = 0", 6, "`delta` must be above 0 in shuffle trust, got 0"),
    ("delta = 1e-8", "", 3, "delta = 1e-8"),
    ("least_people = 300", "", 3, "must have the key least_people"),
    ("least_people = 300", "least_people = 3.5", 7, "`least_people` must be a whole number"),
    ("least_people = 300", 'least_people = 300\nnoise = "me"', 8, "people, shuffler"),
    ("[privacy]", "[[privacy]]", None, "[privacy]"),
    ('[[question]]\nid = "smoke"', '[question]\nid = "smoke"', 9, "[[question]]"),
    ('id = "smoke"', 'id = "do you smoke"', 10, "`id` must be a letter"),
    ('id = "smoke"', "", 9, "must have the key id"),
    ('id = "sleep"', 'id = "smoke"', 42, "also in line 10"),
    ('kind = "yes-no"', 'kind = "yesno"', 12, "did you mean 'yes-no'?"),
    ('kind = "yes-no"', "", 9, "must have a kind"),
    ('kind = "yes-no"', 'kind = "yes-no"\nchoices = ["a", "b"]', 13, "yes-no must not have"),
    ('text = "Do you smoke?"', 'txt = "Do you smoke?"', 11, "did you mean 'text'?"),
    ('text = "Do you smoke?"', 'text = ""', 11, "`text` must be a text"),
    ("at_most = 2", "at_most = 4", 26, "`at_most` must be between 1 and 3"),
    ("at_most = 2", "at_most == 2", 26, "a value must be"),
    ('    "other",\n]', '    "other",\n    "opioids"\n]', 21, "'opioids' twice"),
    ('    "other",\n]', '    "other",\n    "no answer"\n]', 21, "optional = true"),
    ("optional = true", "optional = yes", 27, "a value must be"),
    ("optional = true", 'optional = "yes"', 27, "`optional` must be True or False"),
    ("optional = true", "optional = true\nweight = -1", 28, "`weight` must be between"),
    ("low = 0\n", "", 29, "bound `low`"),
    ("low = 0\n", "low = 60\n", 33, "`low` must be below `high`"),
    ('want = ["mean", "quantiles"]', 'want = ["mode"]', 36, "mean, quantiles, shares"),
    ('want = ["mean", "quantiles"]', 'want = ["shares"]', 36, "bins = ["),
    ('of = ["smoke", "sleep"]', 'of = ["smoke"]', 39, "two questions"),
    ('of = ["smoke", "sleep"]', 'of = ["smoke", "slepp"]', 39, "did you mean 'sleep'?"),
    ('of = ["smoke", "sleep"]', 'of = ["smoke", "drugs"]', 39, "of kind several"),
    ("high = 5\n", "high = 1\n", 46, "`high` must be above `low`"),
    ("[[table]]", "[[tables]]", 38, "did you mean 'table'?"),
]  # fmt: skip


def test_good_file() -> None:
    survey = file.read(GOOD)
    assert survey.title == "Campus health"
    assert [one.id for one in survey.questions] == ["smoke", "drugs", "partners", "sleep"]
    assert survey.budget == hc.Budget(2, 1e-8)
    assert (survey.trust, survey.least_people) == (hc.Trust.SHUFFLE, 300)
    assert survey.tables == (("smoke", "sleep"),)
    assert [one.task.name for one in survey.questions] == [
        "count",
        "boxes",
        "distribution",
        "histogram",
    ]
    again = file.survey_from(file.survey_data(survey))
    assert file.survey_data(again) == file.survey_data(survey)
    assert again.questions == survey.questions


@pytest.mark.parametrize(("old", "new", "line", "words"), WRONG)
def test_wrong_files(tmp_path: Path, old: str, new: str, line: int | None, words: str) -> None:
    assert GOOD.count(old) >= 1
    path = tmp_path / "campus.toml"
    path.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(hc.HeadcountError) as caught:
        file.load(path)
    said = str(caught.value)
    where = "campus.toml" if line is None else f"campus.toml, line {line}"
    assert said.startswith(f"{where}: "), said
    assert words in said
    assert "\n" not in said


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(hc.UnreadableData, match="No such file"):
        file.load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes('title = "é"'.encode("latin-1"))
    with pytest.raises(hc.UnreadableData, match="UTF-8"):
        file.load(tmp_path / "latin.toml")
    (tmp_path / "long.toml").write_bytes(b"#" * 1_000_001)
    with pytest.raises(hc.UnreadableData, match="1 MB"):
        file.load(tmp_path / "long.toml")
    with pytest.raises(hc.InvalidParameter, match="must have a table \\[privacy\\]"):
        file.read("")
    with pytest.raises(hc.InvalidParameter, match="at least one question"):
        file.read('[privacy]\ntrust = "central"\nepsilon = 1\n')
