"""The researcher's pages: who may come in, what they show, and what hostile files cannot do."""

import asyncio
import html
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from commands import Headcount
from headcount.collect.pair import Pair
from headcount.collect.shuffler import Sent, Shuffler
from headcount.collect.store import opened
from headcount.console.app import Console, Handlers, console_app
from headcount.console.form import survey_text
from headcount.console.pages import collecting, projector
from headcount.console.surveys import Folder, example
from headcount.core.budget import Trust
from headcount.core.errors import Infeasible, UnreadableData
from headcount.survey.file import read
from headcount.survey.plan import needed_epsilon

TOKEN = "a token that only the tests know"
SURVEY = """\
title = "Habits"

[privacy]
trust = "local"
epsilon = 2  # for everything
least_people = 25

[[question]]
id = "smoke"
text = "Do you smoke?"
kind = "yes-no"

[[question]]
id = "way"
text = "How do you come here?"
kind = "choice"
choices = ["on foot", "by bus"]
"""
HOSTILE = "</textarea><script>alert(1)</script>\"'><img src=x onerror=alert(1)>&lt;"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "habits.toml").write_text(SURVEY)
    return tmp_path


class InProcess(httpx.BaseTransport):
    """Requests to an application in this process."""

    def __init__(self, app: Console) -> None:
        self.app = app

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            reply = await transport.handle_async_request(
                httpx.Request(
                    request.method, request.url, headers=request.headers, content=request.read()
                )
            )
            return httpx.Response(
                reply.status_code, headers=reply.headers, content=await reply.aread()
            )

        return asyncio.run(ask())


def browser(app: Console) -> httpx.Client:
    """A browser that has not signed in."""
    return httpx.Client(
        transport=InProcess(app), base_url="http://127.0.0.1:8400", follow_redirects=True
    )


@pytest.fixture
def app(place: Path) -> Console:
    return console_app(Folder(place), TOKEN, once=False)


@pytest.fixture
def client(app: Console) -> httpx.Client:
    return browser(app)


@pytest.fixture
def inside(client: httpx.Client) -> httpx.Client:
    """A browser that has signed in."""
    assert client.post("/token", data={"token": TOKEN}).status_code == 200
    return client


def stamp(client: httpx.Client) -> str:
    found = re.search(r'name="stamp" value="([0-9a-f]{64})"', client.get("/new").text)
    assert found is not None
    return found[1]


def post(client: httpx.Client, path: str, **fields: str) -> Any:
    return client.post(path, data={"stamp": stamp(client), **fields}, follow_redirects=False)


class Elements(HTMLParser):
    """All elements of a page, with their attributes, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check_harmless(page: str) -> Elements:
    """Nothing on the page runs or styles itself, and nothing comes from elsewhere."""
    found = Elements(page)
    scripts = [attributes for tag, attributes in found.elements if tag == "script"]
    assert scripts == [{"type": "module", "src": "/static/console.js"}]
    assert not {"style", "iframe", "object", "base"} & {tag for tag, _ in found.elements}
    for _, attributes in found.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("src", "action"):
            assert (attributes.get(name) or "/").startswith("/")
    return found


# Who may come in ------------------------------------------------------------------------------

ADDRESSES = [
    ("GET", "/"), ("GET", "/new"), ("POST", "/new"), ("GET", "/form"), ("POST", "/form"),
    ("GET", "/surveys/habits"), ("GET", "/surveys/habits/edit"), ("POST", "/surveys/habits/edit"),
    ("GET", "/surveys/habits/plan"), ("GET", "/surveys/habits/class"),
    ("GET", "/surveys/habits/status"), ("GET", "/surveys/habits/qr.svg"),
    ("GET", "/surveys/habits/results.json"), ("POST", "/surveys/habits/epsilon"),
    ("POST", "/surveys/habits/open"), ("POST", "/surveys/habits/close"),
    ("POST", "/surveys/habits/destroy"), ("POST", "/surveys/habits/codes"),
]  # fmt: skip


def test_the_list_of_addresses_is_complete(app: Console) -> None:
    known = {
        (method, route.path.replace("{name}", "habits").replace("{ending}", "json"))
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert known - {("POST", "/token"), ("GET", "/static/habits")} == set(ADDRESSES)


@pytest.mark.parametrize(("method", "path"), ADDRESSES)
def test_nothing_is_shown_or_done_without_the_token(
    client: httpx.Client, place: Path, method: str, path: str
) -> None:
    before = sorted(place.rglob("*"))
    for cookie in ("", "headcount=x", "headcount=x.y"):
        reply = client.request(method, path, headers={"Cookie": cookie})
        assert reply.status_code == 401
        assert "Habits" not in reply.text
    assert sorted(place.rglob("*")) == before
    assert (place / "habits.toml").read_text() == SURVEY


@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], TOKEN + "x", "é"])
def test_wrong_tokens_are_refused(client: httpx.Client, token: str) -> None:
    assert client.post("/token", data={"token": token}).status_code == 401
    assert client.get("/", params={"token": token}).status_code == 401
    assert not client.cookies


def test_a_token_for_one_use_works_once(place: Path) -> None:
    app = console_app(Folder(place), TOKEN, once=True)
    first, second = browser(app), browser(app)
    reply = first.get("/", params={"token": TOKEN, "to": "/surveys/habits/plan"})
    assert reply.status_code == 200
    assert reply.url.path == "/surveys/habits/plan"
    assert "token" not in str(reply.url)
    assert second.get("/", params={"token": TOKEN}).status_code == 401
    assert second.get("/", params={"token": ""}).status_code == 401
    assert first.get("/").status_code == 200


def test_nobody_is_sent_to_another_site(client: httpx.Client) -> None:
    for target in ("https://evil.example/", "//evil.example/", "/\\evil.example"):
        reply = client.get("/", params={"token": TOKEN, "to": target}, follow_redirects=False)
        assert (reply.status_code, reply.headers["location"]) == (303, "/")


def test_forms_of_other_sites_and_browsers_are_refused(
    app: Console, inside: httpx.Client, place: Path
) -> None:
    other = browser(app)
    other.post("/token", data={"token": TOKEN})
    for fields in ({}, {"stamp": ""}, {"stamp": "0" * 64}, {"stamp": stamp(other)}):
        for method, path in ADDRESSES:
            if method == "POST":
                reply = inside.post(path, data={"epsilon": "9", "text": "x", **fields})
                assert reply.status_code == 403, path
    assert [one.name for one in place.iterdir()] == ["habits.toml"]
    assert (place / "habits.toml").read_text() == SURVEY


def test_every_reply_has_the_same_strict_policy(
    app: Console, inside: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(self: Handlers, request: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Handlers, "plan", fails)
    failing = browser(console_app(Folder(Path()), TOKEN, once=False))
    failing.post("/token", data={"token": TOKEN})
    replies = [
        *(inside.request(method, path) for method, path in ADDRESSES),
        *(inside.get(f"/static/{name}") for name in (
            "page.css", "base.css", "console.css", "console.js", "icon.svg", "app.py")),
        inside.get("/nowhere"),
        inside.delete("/"),
        post(inside, "/new", name="", text=""),
        browser(app).get("/"),
        failing.get("/surveys/x/plan"),
    ]  # fmt: skip
    assert {reply.status_code for reply in replies} == {200, 400, 401, 403, 404, 405, 500}
    for reply in replies:
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "RuntimeError" not in reply.text


# Surveys and plans ----------------------------------------------------------------------------


def test_the_plan_shows_the_numbers_of_the_library(inside: httpx.Client) -> None:
    survey = read(SURVEY)
    for path, plan in (
        ("/surveys/habits", survey.plan()),
        ("/surveys/habits/plan?step=5", read(SURVEY.replace("epsilon = 2", "epsilon = 1")).plan()),
    ):
        page = inside.get(path)
        assert page.status_code == 200
        texts = check_harmless(page.text).texts
        for one in plan.answers:
            at = texts.index(one.text)
            assert [text for text in texts[at:] if text.startswith("±")][:2] == list(one.shown)
        assert plan.odds.sentence in texts
        for who, what in plan.seen:
            assert texts[texts.index(who) + 1] == what


def test_exactness_is_asked_first_and_epsilon_is_the_answer(
    inside: httpx.Client, place: Path
) -> None:
    wanted = needed_epsilon(read(SURVEY), 0.4)
    page = inside.get("/surveys/habits/plan?margin=40").text
    assert page.index("How exact must it be?") < page.index("stronger protection")
    assert f"For ±40 points with 25 people, ε = {wanted:g} is enough." in page
    # The survey cannot be opened with another epsilon than the one that is shown.
    assert "Open in class mode" not in page
    reply = post(inside, "/surveys/habits/epsilon", epsilon=f"{wanted:.10g}")
    assert reply.status_code == 303
    changed = (place / "habits.toml").read_text()
    assert changed == SURVEY.replace("epsilon = 2 ", f"epsilon = {wanted:g} ")
    assert "Open in class mode" in inside.get("/surveys/habits").text


@pytest.mark.parametrize("asked", ["margin=0", "margin=x", "margin=nan", "step=99", "step=-1"])
def test_impossible_wishes_are_refused_in_words(inside: httpx.Client, asked: str) -> None:
    page = inside.get(f"/surveys/habits/plan?{asked}")
    assert page.status_code == 400
    assert "must be a number between" in page.text


def test_a_margin_that_is_out_of_reach_is_refused_in_words(
    inside: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: Any, **named: Any) -> float:
        raise Infeasible("a margin of ±1 points must be possible")

    monkeypatch.setattr("headcount.console.surveys.needed_epsilon", refused)
    page = inside.get("/surveys/habits/plan?margin=1")
    assert page.status_code == 400
    assert "must be possible" in page.text
    assert "Open in class mode" in page.text  # the plan of the file is still shown


def test_what_would_be_possible_is_said_in_words_of_the_file(
    inside: httpx.Client, place: Path
) -> None:
    number = '[[question]]\nid = "age"\ntext = "?"\nkind = "number"\nlow = 0\nhigh = 9\n'
    text = SURVEY.replace('"local"', '"shuffle"\ndelta = 1e-3').replace("= 25", "= 12") + number
    (place / "habits.toml").write_text(text)
    assert "Fix: least_people = 19" in check_harmless(inside.get("/surveys/habits").text).texts


def test_a_survey_is_written_from_the_example(inside: httpx.Client, place: Path) -> None:
    assert html.escape(example()) in inside.get("/new").text
    reply = post(inside, "/new", name="campus", text=example().replace("\n", "\r\n"))
    assert (reply.status_code, reply.headers["location"]) == (303, "/surveys/campus")
    assert (place / "campus.toml").read_text() == example()
    assert post(inside, "/new", name="campus", text=SURVEY).status_code == 400
    assert (place / "campus.toml").read_text() == example()
    assert post(inside, "/surveys/campus/edit", text=SURVEY).status_code == 303
    assert (place / "campus.toml").read_text() == SURVEY


@pytest.mark.parametrize("name", ["", "../evil", "a/b", ".hidden", "a\0b", "x" * 65, "a b"])
def test_files_are_written_only_into_the_folder(
    inside: httpx.Client, place: Path, name: str
) -> None:
    reply = post(inside, "/new", name=name, text=SURVEY)
    assert reply.status_code == 400
    assert [one.name for one in place.iterdir()] == ["habits.toml"]
    assert not list(place.parent.rglob("*evil*"))


def test_errors_name_the_line_and_the_fix(inside: httpx.Client, place: Path) -> None:
    text = SURVEY.replace('kind = "yes-no"', 'kind = "yesno"')
    page = post(inside, "/surveys/habits/edit", text=text)
    assert page.status_code == 400
    found = check_harmless(page.text)
    assert any(text.startswith("habits.toml, line 11: `kind` must be") for text in found.texts)
    assert "Fix: did you mean 'yes-no'?" in found.texts
    areas = [attributes for tag, attributes in found.elements if tag == "textarea"]
    assert [one["data-line"] for one in areas] == ["11"]
    assert f"\n{text}" in found.texts  # what was typed is not lost
    assert (place / "habits.toml").read_text() == SURVEY


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe\x00junk", "UTF-8"),
        (b"x" * 1_000_001, "smaller than 1 MB"),
        (b"", "must have a table [privacy]"),
        (b"title = ", "habits.toml, line 1"),
        (b"[[question]]\n" * 2000, "must have a table [privacy]"),
        (SURVEY.replace("epsilon = 2", "epsilon = 1e400").encode(), "epsilon"),
        (SURVEY.replace('"local"', '"central"').encode(), ""),
    ],
)
def test_junk_files_are_refused_in_words(
    inside: httpx.Client, place: Path, content: bytes, said: str
) -> None:
    (place / "habits.toml").write_bytes(content)
    for path in ("/surveys/habits", "/surveys/habits/plan", "/surveys/habits/edit"):
        page = inside.get(path)
        assert page.status_code in (200, 400)
        check_harmless(page.text)
    assert inside.get("/").status_code == 200
    assert said in html.unescape(inside.get("/surveys/habits").text)


@pytest.mark.parametrize(
    ("host", "phones"),
    [
        ("https://survey.example", True),
        ("http://127.0.0.1:8401", False),
        ("http://[::1]:8401", False),
        ("http://localhost:8401", False),
    ],
)
def test_there_is_a_qr_code_if_phones_can_follow_the_link(host: str, phones: bool) -> None:
    found: Any = SimpleNamespace(
        document=SimpleNamespace(title="", admission="open", trust=Trust.LOCAL, least_people=25),
        status=SimpleNamespace(responses=3, coarse=0, step=20, least_people=25),
        address=f"{host}/surveys/1/",
        state="open",
        in_class=True,
    )
    for view in (collecting, projector):
        page = check_harmless(view("", "habits", found, few=False))
        assert ("img" in {tag for tag, _ in page.elements}) == phones
        assert ("This link works only on this machine." in " ".join(page.texts)) != phones
        assert ("--address" in page.texts) != phones  # in one piece, which never breaks
    assert ("Scan to answer" in page.texts, "Open this link to answer" in page.texts) == (
        phones,
        not phones,
    )


def test_hostile_texts_are_only_shown(inside: httpx.Client, place: Path) -> None:
    quoted = HOSTILE.replace('"', '\\"')
    text = SURVEY.replace('"Habits"', f'"{quoted}"').replace("Do you smoke?", quoted)
    text = text.replace("on foot", quoted).replace("title", f'introduction = "{quoted}"\ntitle', 1)
    (place / "habits.toml").write_text(text)
    (place / "<img onerror=x>.toml").write_text(text)
    for path in ("/", "/surveys/habits", "/surveys/habits/edit", "/surveys/%3Cimg%20onerror=x%3E"):
        page = inside.get(path)
        assert page.status_code == 200
        found = check_harmless(page.text)
        assert "img" not in {tag for tag, _ in found.elements}
        assert HOSTILE in "".join(found.texts) or quoted in "".join(found.texts)
    page = post(inside, "/new", name=HOSTILE, text=HOSTILE)
    assert HOSTILE in "".join(check_harmless(page.text).texts)
    check_harmless(inside.get(f"/surveys/{HOSTILE.replace('/', '')}").text)


def test_a_form_writes_a_survey_file(inside: httpx.Client, place: Path) -> None:
    breakout = 'A "\n[privacy]\nepsilon = 99\n\\ é \x7f'
    fields = {
        "title": breakout, "introduction": "", "least_people": "30", "trust": "shuffle",
        "text1": breakout, "kind1": "choice", "choices1": 'a "b", c\\', "optional1": "yes",
        "text2": "", "text3": "How well?", "kind3": "scale",
    }  # fmt: skip
    survey = read(survey_text(fields))
    assert survey.title == 'A " [privacy] epsilon = 99 \\ é \x7f'
    assert (survey.budget.epsilon, survey.least_people) == (2, 30)
    assert [one.kind for one in survey.questions] == ["choice", "scale"]
    assert survey.questions[0].to_dict()["choices"] == ['a "b"', "c\\"]
    assert survey.questions[0].optional
    page = post(inside, "/form", **fields)
    assert page.status_code == 200
    assert survey_text(fields) in "".join(check_harmless(page.text).texts)
    assert post(inside, "/form", **{**fields, "least_people": "many"}).status_code == 400
    assert post(inside, "/form", title="x", least_people="3").status_code == 400


# Rounds ---------------------------------------------------------------------------------------


def test_codes_coarse_numbers_and_the_end_of_a_round(
    inside: httpx.Client, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def registered(self: Pair, **settings: Any) -> None:
        Shuffler(opened(str(self.shuffler_store))).register(self.document)

    monkeypatch.setattr(Pair, "start", registered)
    assert post(inside, "/surveys/habits/open", admission="all").status_code == 400
    assert post(inside, "/surveys/habits/open", admission="codes").status_code == 303
    assert post(inside, "/surveys/habits/open", admission="codes").status_code == 400
    assert post(inside, "/surveys/habits/edit", text=SURVEY).status_code == 400
    assert post(inside, "/surveys/habits/epsilon", epsilon="3").status_code == 400
    page = check_harmless(inside.get("/surveys/habits").text)
    assert "fewer than 10 responses" in page.texts
    codes = post(inside, "/surveys/habits/codes", count="13")
    assert codes.headers["content-disposition"].startswith("attachment")
    pair = Pair(place / "habits.rounds" / "1")
    link = f"{pair.document.addresses.shuffler}/surveys/{pair.document.digest}/#code="
    lines = codes.text.splitlines()
    assert len(set(lines)) == 13
    assert all(line.startswith(link) for line in lines)
    shuffler = Shuffler(opened(str(pair.shuffler_store)))
    size = pair.document.response_bytes
    outcomes = shuffler.accept([
        Sent(pair.document.digest, bytes([at]) * size, line.removeprefix(link))
        for at, line in enumerate(lines)
    ])  # fmt: skip
    assert outcomes == ["stored"] * 13
    status = inside.get("/surveys/habits/status").json()
    # Only class mode shows the exact number.
    assert status["count"] == "at least 10 responses"
    assert status["enough"] is False
    assert "13" not in str(status)
    reply = post(inside, "/surveys/habits/close")
    assert reply.headers["location"] == "/surveys/habits?few=yes"
    few = inside.get("/surveys/habits?few=yes").text
    assert "At least 25 people must answer" in few
    assert inside.get("/surveys/habits/results.json").status_code == 404
    assert post(inside, "/surveys/habits/destroy").status_code == 303
    assert "All responses of this round were deleted" in inside.get("/surveys/habits").text
    assert not (place / "habits.rounds" / "2").exists()


@pytest.mark.parametrize(
    ("trust", "said"), [("central", "must have local or shuffle trust"), ("local", "port is taken")]
)
def test_a_round_that_cannot_be_opened_leaves_nothing_behind(
    inside: httpx.Client, place: Path, monkeypatch: pytest.MonkeyPatch, trust: str, said: str
) -> None:
    def failing(self: Pair, **settings: Any) -> None:
        raise UnreadableData("the shuffler must start, got: the port is taken")

    monkeypatch.setattr(Pair, "start", failing)
    (place / "habits.toml").write_text(SURVEY.replace('"local"', f'"{trust}"'))
    page = post(inside, "/surveys/habits/open", admission="open")
    assert page.status_code == 400
    assert said in page.text
    assert not list((place / "habits.rounds").iterdir())
    assert "not opened yet" in inside.get("/").text
    assert inside.get("/surveys/habits").status_code == 200


def test_other_hosts_need_a_token(headcount: Headcount, tmp_path: Path) -> None:
    short = tmp_path / "token"
    short.write_text("short")
    for arguments, said in (
        (("--host", "0.0.0.0"), "--token-file must be given"),
        (("--host", "0.0.0.0", "--token-file", str(short)), "at least 16 characters"),
        (("--class", str(tmp_path / "none.toml")), "no survey in this folder"),
        (("--class", str(tmp_path / "survey.txt")), "must be a survey file"),
        ((str(tmp_path / "nowhere"),), "must be a folder"),
    ):
        outcome = headcount("console", *arguments)
        assert outcome.status == 2
        assert said in outcome.err
        assert len(outcome.err.splitlines()) == 1
