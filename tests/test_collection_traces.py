"""That no address, agent or time of a person is in any table, file or log of the services.

The services believe a proxy's X-Forwarded-For, so they know the address of each person.
"""

import ipaddress
import itertools
import json
import math
import re
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import numpy as np
import psycopg
import pytest

import headcount as hc
from collection import RESULTS_TOKEN, TOKEN, pair, post, results
from headcount.collect.client import response
from headcount.collect.document import Document
from headcount.collect.shuffler import Shuffler
from headcount.collect.store import opened
from postgres import server as postgres_server
from test_collection_forensics import files_of, many_messages

ADDRESS = "2001:db8:77:42ab::7"
NEIGHBOR = "2001:db8:77:42cd::8"  # in the same part of the network, a /56
STRANGER = "2001:db8:99:42ab::7"
AGENT = "Netscape 4.8"
SINCE_2000 = 946_684_800  # PostgreSQL counts time from 2000
DAY = 86_400
Span: TypeAlias = tuple[float, float]  # when a test began, and now


def headers(address: str = ADDRESS) -> dict[str, str]:
    return {"User-Agent": AGENT, "X-Forwarded-For": address}


# Looking for traces -------------------------------------------------------------------------------


def person_in(data: bytes) -> list[bytes]:
    """The parts of a request or of an address that data contains."""
    packed = ipaddress.ip_address(ADDRESS).packed
    words = (b"Netscape", b"2001:db8", b"2001:0db8", packed[:7], packed[:7][::-1], b"GET", b"POST")
    return [word for word in words if word in data]


def is_time(number: float, begin: float, end: float) -> bool:
    """Whether a number is a time of this test, or is close to one: in seconds or in thousandths or
    millionths of a second within a day, or in whole minutes, hours or days.
    """
    early, late = begin - DAY, end + DAY
    if not math.isfinite(number):
        return False
    for since in (0, SINCE_2000):
        if any(early <= number / unit + since <= late for unit in (1, 1e3, 1e6)):
            return True
        if any(early <= number * unit + since <= late for unit in (60, 3600, DAY)):
            return True
        if begin - 2 <= number / 1e9 + since <= end + 2:
            return True
    return early <= (number - 2_440_587.5) * DAY <= late  # a Julian day


def time_in(value: Any, begin: float, end: float) -> bool:
    """Whether a stored value is or contains a time. In bytes, only times of eight bytes are found:
    four random bytes would be one too often.
    """
    if isinstance(value, bool | None):
        return False
    if isinstance(value, int | float):
        return is_time(value, begin, end)
    if isinstance(value, str):
        numbers = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)", value)
        dated = re.search(r"\b20\d\d-\d\d-\d\d|\d\d:\d\d:\d\d", value)
        return bool(dated) or any(is_time(float(one), begin, end) for one in numbers)
    return times_of(bytes(value), begin, end) > 0


KINDS = ("<i8", ">i8", "<f8", ">f8")
UNITS = ((1, 0), (1e3, 0), (1e6, 0), (1e6, SINCE_2000))


def times_of(data: bytes, begin: float, end: float, kinds: Any = KINDS, units: Any = UNITS) -> int:
    """How many times of eight bytes are in data, written in any of these ways."""
    number = 0
    for shift, kind in itertools.product(range(min(8, max(0, len(data) - 7))), kinds):
        words = np.frombuffer(data, kind, (len(data) - shift) // 8, shift)
        for unit, since in units:
            low, high = (begin - 2 - since) * unit, (end + 2 - since) * unit
            number += int(np.count_nonzero((words >= low) & (words <= high)))
    return number


def test_traces_would_be_found() -> None:
    """The ways in which a service could have kept an address or a time."""
    now = time.time()
    span = (now, now + 5)
    kept: list[Any] = [
        now, int(now), now * 1e3, int(now * 1e6), int(now * 1e9), now // DAY, int(now // 3600),
        now // DAY * DAY, now - SINCE_2000, int((now - SINCE_2000) * 1e6), now / DAY + 2_440_587.5,
        f"at {now}", json.dumps({"at": int(now * 1e3)}), "2026-11-18", "12:30:00",
        struct.pack("<d", now), b"x" + struct.pack(">q", int(now * 1e6)),
    ]  # fmt: skip
    for value in kept:
        assert time_in(value, *span), value
    harmless: list[Any] = [None, True, 0, 3, 2.5, 20_000, 10**12, 2**62, -1, math.inf, "a1700b"]
    harmless += ["0" * 64, json.dumps({"people": 3, "epsilon": 1.5}), bytes(64), b"\xff" * 64]
    for value in harmless:
        assert not time_in(value, *span), value
    packed = ipaddress.ip_address(ADDRESS).packed
    for data in (ADDRESS.encode(), packed, f"for {NEIGHBOR}".encode(), AGENT.encode()):
        assert len(person_in(b"x" + data + b"x")) == 1


# A survey -----------------------------------------------------------------------------------------


def check_tables(rows: Iterator[tuple[str, Any]], survey: Document, span: Span) -> int:
    """Check all values of all tables, and return how many there are. The survey's document is what
    it was.
    """
    number = 0
    for table, value in rows:
        number += 1
        data = value.encode() if isinstance(value, str) else value
        if isinstance(data, bytes | memoryview):
            assert not person_in(bytes(data)), table
        assert data == survey.data or not time_in(value, *span), (table, value)
    return number


def values_in(place: str) -> Iterator[tuple[str, Any]]:
    """All values of all tables of a store, with the names of their tables."""
    kind = (
        "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'collect'"
        if "://" in place
        else "SELECT name FROM sqlite_master WHERE type = 'table'"
    )
    with closing(opened(place)) as store, store.reading() as run:
        tables = [name for (name,) in run(kind)]
        assert len(tables) >= 2
        for table in tables:
            for row in run(f"SELECT * FROM {table}"):
                yield from ((table, value) for value in row)


def check_survey(folder: Path, store: str, check: Callable[[Span], None]) -> None:
    """Three people answer. Traces are looked for while the survey is open, and when it has results.
    `check` looks in files.
    """
    survey = many_messages(folder, 1)
    begin, source = time.time() - 1, hc.SecureSource()
    places = {role: store or str(folder / f"{role}.db") for role in ("shuffler", "analyzer")}
    believing = {"proxies": "127.0.0.1"}
    more = {"STORE": store} if store else {}
    with pair(folder, survey, **more, SETTINGS=json.dumps(believing)) as (one, other):
        one.settings["SETTINGS"] = json.dumps({**believing, "rate": 1e-6, "burst": 2})
        one.start()
        other.start()
        bodies = [response(survey, {"q0": 1}, source) for _ in range(4)]
        addresses = (ADDRESS, NEIGHBOR, ADDRESS, STRANGER)
        replies = [
            post(survey, body, headers=headers(address))
            for body, address in zip(bodies, addresses, strict=True)
        ]
        # The third request is refused, so the shuffler did learn the addresses.
        assert [reply.status_code for reply in replies] == [201, 201, 429, 201]
        assert not {"date", "server", "set-cookie"} & {
            name for one in replies for name in one.headers
        }

        def look() -> None:
            span = (begin, time.time())
            assert sum(check_tables(values_in(at), survey, span) for at in places.values()) > 15
            check(span)

        look()
        with closing(opened(places["shuffler"])) as own:
            Shuffler(own).close(survey.digest)
        results(survey)
        asked = f"{survey.addresses.analyzer}/surveys/{survey.digest}"
        for token, path, status in (
            (RESULTS_TOKEN, "results", 200),
            (TOKEN, "results", 401),
            (RESULTS_TOKEN, "nowhere", 404),
        ):
            bearer = {**headers(), "Authorization": f"Bearer {token}"}
            reply = httpx.get(f"{asked}/{path}", headers=bearer)
            assert reply.status_code == status
        bearer = {**headers(), "Authorization": f"Bearer {TOKEN}"}
        assert httpx.put(f"{asked}/batches/{'0' * 32}", headers=bearer).status_code == 400
        look()
        assert [one.stop(), other.stop()] == [-15, -15]
        look()
    for service, events in (
        (one, ["serving", "forwarded"]),
        (other, ["serving", "counted"]),
    ):
        lines = [json.loads(line) for line in service.log.splitlines()]
        assert [line["event"] for line in lines] == events
        assert all(set(line) <= {"event", "host", "port", "survey"} for line in lines)
        assert not person_in(service.log.encode())


def test_no_address_agent_or_time_is_kept(tmp_path: Path) -> None:
    def check(span: Span) -> None:
        begin, end = span
        for role in ("shuffler", "analyzer"):
            data = files_of(tmp_path, f"{role}.db*")
            assert len(data) > 16_384
            assert not person_in(data)
            assert times_of(data, begin, end) == 0

    check_survey(tmp_path, "", check)


@pytest.mark.slow
def test_postgresql_keeps_times_only_in_its_write_ahead_log(tmp_path: Path) -> None:
    """The log has the time of each transaction, as the documentation says. No other file that holds
    data of the services has one, and no file has an address or an agent.
    """
    with postgres_server() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            # The server's own tables have times, such as those of its last autovacuum.
            connection.execute("CREATE DATABASE collected")
        place = server.url.replace("/postgres?", "/collected?")

        def check(span: Span) -> None:
            with psycopg.connect(place, autocommit=True) as connection:
                connection.execute("CHECKPOINT")
                ((tracked,),) = connection.execute("SHOW track_commit_timestamp").fetchall()
                assert tracked == "off"
                files = connection.execute(
                    "SELECT pg_relation_filepath(oid) FROM pg_class "
                    "WHERE relnamespace::regnamespace::text IN ('collect', 'pg_toast') "
                    "AND relkind IN ('r', 'i', 't')"
                ).fetchall()
            kept = b"".join((server.data / path).read_bytes() for (path,) in files)
            assert len(kept) > 16_384
            assert times_of(kept, *span) == 0
            logs = b"".join(
                path.read_bytes() for path in (server.data / "pg_wal").iterdir() if path.is_file()
            )
            assert times_of(logs, *span, KINDS[:1], UNITS[-1:]) > 3
            everything = (path for path in server.data.rglob("*") if path.is_file())
            assert not any(b"Netscape" in path.read_bytes() for path in everything)
            assert not any(word in kept + logs for word in (b"2001:db8", b"2001:0db8"))

        check_survey(tmp_path, place, check)
