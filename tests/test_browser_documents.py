"""Whole responses of the browser: from a document, answers and random bytes to sealed bytes.

`python tests/test_browser_documents.py` writes `vectors/responses-1.json`. Good documents give
the same bytes in Python, Chromium and Node. Bad documents are refused by all of them.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

import headcount as hc
from asked import AGE, DRINK, PARTNERS, PLACES, SEX, SMOKE, document, question
from browsing import ROOT, chromium, harness_page, in_browser, in_node
from devices import Recorded
from headcount.collect.device import device_data
from headcount.collect.document import Addresses, Document, canonical
from headcount.collect.keys import PublicKey
from headcount.collect.releases import release_of
from headcount.survey.design import Ask
from headcount.survey.response import Response, Selection
from test_collection_vectors import FILE as SEALING
from test_collection_vectors import seal

FILE = ROOT / "vectors" / "responses-1.json"
KEY = "07a37cbc142093c8b755dc1b10e86cb426374ad16aa853ed0bdfc0b2b86d1c7c"
SERVICES = Addresses("https://mix.example", "https://count.example")
CROWD = hc.Crowd(400)
TITLE = "Vectors: “ä”, 𝔸 and \\"
EVERY_KIND = [
    SMOKE,
    DRINK,
    {**SEX, "optional": True},
    question("sleep", "How do you sleep?", "scale", low=-2, high=2),
    AGE,
    {**PARTNERS, "text": "How many partners?", "want": ["mean", "quantiles"]},
    question("rent", "What is your rent?", "number",
             low=0, high=2000.1, want=["quantiles"], cells=16),
    question("drugs", "Which of these?", "several",
             choices=["cannabis", "stimulants", "opioids", "other"], at_most=2, optional=True),
]  # fmt: skip
TABLE = [{"of": ["sex", "smoke"]}]
EPSILONS = (0.3, 1, 3, 8)
ANSWERS: list[dict[str, Any]] = [
    {"smoke": True, "drink": False, "sex": "other", "sleep": -2, "age": 33.3, "partners": 9,
     "rent": 2000.1, "drugs": ["opioids", "cannabis"], "places": ["place 19", "place 0"]},
    {"smoke": False, "drink": True, "sex": None, "sleep": 2, "age": 18, "partners": None,
     "rent": 0.3, "drugs": None, "places": []},
    {"smoke": True, "drink": True, "sex": "female", "sleep": 0, "age": 99.5, "partners": 0,
     "rent": 1000.05, "drugs": [], "places": ["place 8"]},
]  # fmt: skip


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as browser, harness_page(browser) as found:
        yield found


def made(
    questions: list[dict[str, Any]],
    trust: str,
    noise: str = "people",
    delta: float = 1e-6,
    epsilon: float = 3,
    **about: Any,
) -> Document:
    privacy = {"trust": trust, "noise": noise, "epsilon": epsilon, "delta": delta,
               "least_people": 400}  # fmt: skip
    key = PublicKey(bytes.fromhex(KEY))
    return document(privacy, questions, key, SERVICES, title=TITLE, **about)


def answered(survey: Document, answers: dict[str, Any], seed: int) -> dict[str, Any]:
    """One vector: what follows from answers and random bytes. Only the answers to the questions
    that the device has drawn are needed.
    """
    source = Recorded(seed)
    selection = Selection.drawn(survey.design, source)
    asked = selection.questions(survey.design)
    given = {name: answers[name] for name in asked}
    encoded = survey.encoded(given, asked)
    sent = Response.of(survey.design, encoded, source, selection).messages
    contents = [survey.envelope.packed(one.release, one.payload) for one in sent]
    keys = [hashlib.sha256(f"{seed} {at}".encode()).digest() for at in range(len(sent))]
    sealed = [
        seal(key, bytes.fromhex(KEY), survey.envelope.info, content)
        for key, content in zip(keys, contents, strict=True)
    ]
    return {
        "asked": list(asked),
        "answers": given,
        "random": source.data.hex(),
        "contents": [content.hex() for content in contents],
        "ephemeral": [key.hex() for key in keys],
        "sha256": hashlib.sha256(b"".join(sealed)).hexdigest(),
        "first": sealed[0].hex(),
    }


def good() -> list[dict[str, Any]]:
    surveys = [
        made(EVERY_KIND, "shuffle", table=TABLE),
        made(EVERY_KIND, "shuffle", "shuffler", table=TABLE),
        made(EVERY_KIND, "local", delta=0, table=TABLE),
        made([PLACES], "local", delta=0),
        made([SMOKE, DRINK, {**SEX, "optional": True}], "local", delta=0, epsilon=0.5),
    ]
    return [
        {
            "document": survey.data.decode(),
            "digest": survey.digest,
            "responses": [answered(survey, one, seed) for seed, one in enumerate(ANSWERS)],
        }
        for survey in surveys
    ]


def changed(data: bytes, *path: Any, to: Any) -> bytes:
    """The document with another value at this path."""
    found = json.loads(data)
    inside = found
    for step in path[:-1]:
        inside = inside[step]
    if to is None:
        del inside[path[-1]]
    else:
        inside[path[-1]] = to(inside[path[-1]]) if callable(to) else to
    return canonical(found)


def told_more(weights: list[str]) -> list[str]:
    """The same weights, but a set without an own value is half as likely."""
    none, one, *others = map(int, weights)
    return [str(none - none // 2), str(one + none // 2), *map(str, others)]


def bad() -> dict[str, bytes]:
    """Documents that every client must refuse. They differ from a good one in one respect."""
    data = made([SMOKE, SEX], "local", delta=0).data
    number = made([AGE], "local", delta=0).data
    places = made([PLACES], "local", delta=0).data
    weights = ("releases", 0, "device", "weights")
    less: Callable[[float], float] = lambda value: value * 0.9  # noqa: E731
    device = json.loads(number)["releases"][0]["device"]
    outside = {"buckets": 3, "bytes": 1, "first": None, "kind": "subset", "size": 2}
    return {
        "empty": b"",
        "not JSON": b"{",
        "a list": b"[]",
        "truncated": data[:-1],
        "longer": data + b"\n",
        "a space": data.replace(b",", b", ", 1),
        "not UTF-8": data.replace(b"Vectors", b"Vector\xff"),
        "a byte-order mark": b"\xef\xbb\xbf" + data,
        "a key twice": data.replace(b'{"addresses"', b'{"addresses":{},"addresses"', 1),
        "unsorted keys": b'{"version":1,' + data[1:].replace(b',"version":1', b""),
        "an escaped letter": data.replace(b"Vectors", b"V\\u0065ctors"),
        "a number in another form": data.replace(b'"version":1,', b'"version":1e0,'),
        "a constant": data.replace(b'"version":1', b'"version":NaN'),
        "deep": b"[" * 100_000,
        "other version": changed(data, "version", to=2),
        "less local epsilon": changed(data, "local_epsilon", to=less),
        "less epsilon": changed(data, "guarantee", "epsilon", to=less),
        "other trust": changed(data, "guarantee", "trust", to="central"),
        "other probability": changed(
            data, "releases", 0, "device", "weight", to=lambda text: str(int(text) // 2)
        ),
        "probability above 1": changed(data, "releases", 0, "device", "weight", to=str(2**64)),
        "other randomizer": changed(
            data, "releases", 0, "device", to={"bytes": 1, "kind": "value"}
        ),
        # These randomizers reveal an answer although they would have a small local ε for others.
        "sets without the answer": changed(
            data, "releases", 1, "device", to={**outside, "weight": str(2**64)}
        ),
        "more levels than the randomizer takes": changed(
            number, "releases", 0, "device", "unit", to="1/100"
        ),
        "numbers below the first level": changed(number, "releases", 0, "device", "low", to="20"),
        "windows for fewer levels": changed(
            number, "releases", 0, "device", "then", "levels", to=lambda levels: 2 * levels
        ),
        "numbers that are rounded twice": changed(
            number, "releases", 0, "device", "then", to=device
        ),
        "epsilon of one wave for two": changed(
            changed(data, "waves", to=2), "local_epsilon", to=lambda value: 2 * value
        ),
        "unknown randomizer": changed(data, "releases", 0, "device", "kind", to="constructor"),
        "no instructions": changed(data, "releases", 0, "device", to=None),
        "other size of integers": changed(data, "releases", 0, "device", "bytes", to=99),
        "more slots": changed(data, "releases", 0, "slots", to=2),
        "no slots": changed(data, "releases", 0, "slots", to=0),
        "other share": changed(data, "releases", 0, "share", to=1),
        "other question": changed(data, "releases", 0, "questions", 0, "id", to="other"),
        "question without release": changed(data, "releases", to=lambda found: found[:1]),
        "sets that tell more": changed(places, *weights, to=told_more),
        "weights above 1": changed(places, *weights, 0, to=str(2**64)),
        "a weight too few": changed(places, *weights, to=lambda found: found[:-1]),
        "more ticks than boxes": changed(places, "releases", 0, "device", "ticks", to=21),
        "more choices than buckets": changed(
            data, "survey", "question", 1, "choices", to=lambda found: [*found, "fourth"]
        ),
        "question of another kind": changed(data, "survey", "question", 0, "kind", to="essay"),
        "no questions": changed(data, "survey", "question", to=[]),
        "more messages": changed(data, "messages", to=3),
        "shorter messages": changed(data, "message_bytes", to=63),
        "longer messages": changed(data, "message_bytes", to=128),
        "other key": changed(data, "key", "public", to="00" * 32),
        "short key": changed(data, "key", "public", to="00"),
        "address of a script": changed(data, "addresses", "shuffler", to="javascript:alert(1)"),
        "unknown admission": changed(data, "admission", to="everybody"),
        "no people": changed(data, "least_people", to=0),
        "no guarantee": changed(data, "guarantee", to=None),
    }


def vectors() -> dict[str, Any]:
    return {
        "version": 1,
        "good": good(),
        "bad": [
            {"why": why, "document": data.hex()} for why, data in bad().items() if len(data) < 9999
        ],
    }


def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def calls() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every response of the file: the arguments of `whole`, and what it must return."""
    for one in stored()["good"]:
        for response in one["responses"]:
            wanted = {
                "asked": response["asked"],
                "contents": response["contents"],
                "used": len(response["random"]) // 2,
            }
            document = one["document"].encode().hex()
            yield {"document": document, "digest": one["digest"], **response}, wanted


def agrees(found: dict[str, Any], call: dict[str, Any], wanted: dict[str, Any]) -> bool:
    sealed = bytes.fromhex(found["sealed"])
    same = hashlib.sha256(sealed).hexdigest() == call["sha256"]
    first = sealed[: len(call["first"]) // 2].hex() == call["first"]
    return same and first and all(found[name] == value for name, value in wanted.items())


# Good documents -------------------------------------------------------------------------------


def test_python_gives_the_stored_responses() -> None:
    for one in stored()["good"]:
        survey = Document.from_bytes(one["document"].encode())
        assert survey.digest == one["digest"]
        for seed, response in enumerate(one["responses"]):
            assert answered(survey, ANSWERS[seed], seed) == response


def test_chromium_gives_the_stored_responses(page: Page) -> None:
    for call, wanted in calls():
        assert agrees(in_browser(page, "whole", [[call]])[0], call, wanted)


def test_node_gives_the_stored_responses() -> None:
    every = list(calls())
    found = in_node("whole", [[call] for call, _ in every])
    assert all(agrees(one, call, wanted) for one, (call, wanted) in zip(found, every, strict=True))


def test_other_random_bytes_give_another_response(page: Page) -> None:
    call, wanted = next(calls())
    flipped = bytes(byte ^ 255 for byte in bytes.fromhex(call["random"])).hex()
    found = in_browser(page, "whole", [[{**call, "random": flipped + "00" * 10_000}]])[0]
    assert found["contents"] != wanted["contents"]


def test_single_messages_are_sealed_alike(page: Page) -> None:
    known = json.loads(SEALING.read_text())
    for one in known["good"]:
        call = [known["digest"], known["public"], known["content_bytes"], one["release"],
                one["payload"], one["ephemeral"]]  # fmt: skip
        found = in_browser(page, "sealed", [call])[0]
        assert found == {"content": one["content"], "sealed": one["sealed"]}


# Designs --------------------------------------------------------------------------------------


def test_browsers_answer_every_survey_that_names_no_protocol() -> None:
    """In both trust models, with both kinds of noise, for every kind of question."""
    every = [*EVERY_KIND, PLACES]
    local = [
        made([one], "local", delta=0, epsilon=epsilon) for one in every for epsilon in EPSILONS
    ]
    shuffled = [made([one], "shuffle", noise) for one in every for noise in ("people", "shuffler")]
    whole = [Document.from_bytes(one["document"].encode()) for one in stored()["good"]]
    surveys = [*local, *shuffled, *whole]
    releases = [one for survey in surveys for one in json.loads(survey.data)["releases"]]
    assert not {one["protocol"] for one in releases if one["device"] is None}
    verdicts = in_node("verdict", [[survey.data.hex(), survey.digest] for survey in surveys])
    assert verdicts == [["accepted", ""]] * len(surveys)


def offers() -> Iterator[tuple[dict[str, Any], str, str]]:
    """Every registered protocol with a question that it answers, and its trust model."""
    for one in (SMOKE, SEX, PLACES, AGE, PARTNERS):
        task = made([one], "local", delta=0).design.asks[0].task
        for trust in ("local", "shuffle"):
            for name in hc.protocol_names(task, hc.Trust(trust)):
                yield one, name, trust


def test_only_protocols_that_browsers_run_are_collected() -> None:
    """People would send hundreds of messages, or a shuffler would have to open messages."""
    refused: dict[str, str] = {}
    for one, name, trust in offers():
        task = made([one], "local", delta=0).design.asks[0].task
        budget = hc.Budget(3, 0 if trust == "local" else 1e-3)
        release = release_of((Ask("a", task),), hc.protocol(name, task, budget, CROWD), CROWD.users)
        try:
            Document({}, (release,), budget, PublicKey(bytes.fromhex(KEY)), SERVICES, CROWD.users)
        except hc.InvalidParameter as error:
            refused[name] = error.message
        else:
            assert device_data(release.protocol) is not None
    assert all(f"{name} cannot be collected" in said for name, said in refused.items())
    assert set(refused) == {
        "shuffle.correlated", "shuffle.correlated-histogram", "shuffle.correlated-sum",
        "shuffle.correlated-tree", "shuffle.sample-threshold",
    }  # fmt: skip


@pytest.mark.slow
def test_browsers_answer_every_survey_that_names_a_protocol() -> None:
    surveys, refused = dict[str, Document](), list[str]()
    for one, name, trust in offers():
        capped = name in ("shuffle.correlated", "shuffle.correlated-histogram")
        asked = {**one, "protocol": name, **({"options": {"max_slots": 16}} if capped else {})}
        try:
            surveys[name] = made([asked], trust, delta=0 if trust == "local" else 1e-6)
        except hc.InvalidParameter as error:
            refused.append(error.message)
    assert len(surveys) >= 28
    assert all("cannot be collected" in said for said in refused)
    verdicts = in_node("verdict", [[one.data.hex(), one.digest] for one in surveys.values()])
    assert verdicts == [["accepted", ""]] * len(surveys)


# Bad documents --------------------------------------------------------------------------------


def test_bad_documents_are_refused_by_everybody(page: Page) -> None:
    every = bad()
    calls = [[data.hex(), None] for data in every.values()]
    verdicts = in_browser(page, "verdict", calls)
    assert verdicts == in_node("verdict", calls)
    for (why, data), (code, message) in zip(every.items(), verdicts, strict=True):
        assert code == ("unsupported" if why == "unknown randomizer" else "document"), (
            why,
            message,
        )
        assert "\n" not in message
        with pytest.raises(hc.UnreadableData):
            Document.from_bytes(data)


def test_stored_bad_documents_are_current() -> None:
    assert {one["why"]: one["document"] for one in stored()["bad"]} == {
        why: data.hex() for why, data in bad().items() if len(data) < 9999
    }


def test_good_documents_are_accepted_only_under_their_digest(page: Page) -> None:
    for one in stored()["good"]:
        data = one["document"].encode().hex()
        calls = [[data, one["digest"]], [data, "0" * 64], [data, one["digest"][:-1]]]
        codes = [code for code, _ in in_browser(page, "verdict", calls)]
        assert codes == ["accepted", "document", "document"]


def test_huge_documents_are_refused_at_once(page: Page) -> None:
    huge = b"[" + b"0," * 2**19 + b"0]"
    code, message = in_browser(page, "verdict", [[huge.hex(), None]])[0]
    assert (code, "1 MiB" in message) == ("document", True)


# Promises -------------------------------------------------------------------------------------


def test_promises_are_rounded_up(page: Page) -> None:
    bounds = [1.00000049, 2.9999999, 0.5, 3, 1.2341e-6, 9.99e-7, 0.00012345641, 0.0, 1e-300]
    texts = in_browser(page, "shown", [[bound] for bound in bounds])
    assert texts == in_node("shown", [[bound] for bound in bounds])
    assert texts[:2] == ["1.00001", "3"]
    assert texts[4:6] == ["1.24 × 10⁻⁶", "9.99 × 10⁻⁷"]
    lowered = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    for bound, text in zip(bounds, texts, strict=True):
        number = float(text.replace(" × 10", "e").translate(lowered))
        assert bound <= number <= bound * 1.01


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n")
