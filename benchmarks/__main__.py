"""Run every comparison, show the table, and write it to docs/benchmarks.md."""

import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import headcount as hc
from benchmarks import accuracy, audits
from benchmarks.comparison import Comparison
from benchmarks.comparisons import SECTIONS

_PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
_HEADINGS = ("what", "headcount", "peer", "peer's", "times faster", "wanted")
_INTRODUCTION = """\
# Benchmarks

`make bench` writes this page. Do not edit it.

Headcount draws the bits of its reports from a cipher with a key from the operating system, and its
probabilities are exact. NumPy and the libraries below have neither property. So the comparisons
include the price of both. Whatever Headcount is compared with is called the peer.

- *Biased bits*: for each person, one bit that is 1 with a given probability p, compared with
  NumPy's `random(n) < p`.
- *local.randomized-response*: all steps from values to the estimate, compared with NumPy and with
  two libraries for local differential privacy.
- *client* and *server* of frequency oracles (local protocols for histograms with d buckets): the
  client randomizes values, and the server counts reports. The peer is the faster of the same two
  libraries. It was timed on the data of some of the people, and its time was scaled up to all
  people.
- *memory*: the peak memory of a process, compared with a limit.
- *rows of Parquet*: `hc.estimate` on a file of whole numbers, including reading and checking. The
  peer is a plain count of each value in the same file, by the faster of polars and DuckDB.
- *real numbers in Parquet*: `hc.estimate` on a file of real numbers. The peer is DuckDB's plain
  `avg` of the same file, for sums, too. "First call" is the first answer of a new process, which
  loads packages and compares protocols. Its time is the best of five processes.
- *persons*: a count with one randomly chosen row of each person. The peer is DuckDB's plain
  `count(DISTINCT person)`.
- *row groups*: a count of a folder of 100 Parquet files with very small row groups. The peer is
  DuckDB's plain `sum`.
- *distribution of … cells*: `hc.estimate` on a file of 10⁸ rows, with a tree of 2²⁰ cells. The peer
  is Headcount's own histogram of the same file. For whole numbers, the histogram has a bucket for
  each cell. For real numbers, it has 100 bins.
- *two-sided geometric noise*: exact noise of scale 1. OpenDP was timed on fewer values, and its
  time was scaled up.
- *randomize shuffle.correlated*: a protocol in which few people send noise. Its time is compared
  with that of a protocol in which everybody sends one message, and with the time to randomize each
  person's value in a separate call.
- *randomize … messages each*: protocols for counts whose bundles are small. Their times are
  compared with that of a protocol in which everybody sends one message. If people send several
  messages, they are also compared with NumPy's `repeat`, which writes the same number of messages
  and draws nothing.
- *randomize and tally shuffle.split-and-mix*: all steps from values to the tally, compared with the
  time to draw the same number of random words.
- *calibrate*: the search for the parameters that meet a budget, compared with a time limit. With
  `max_slots`, it searches for the best noise that fits into bundles of this size. With
  `minimize=slots`, it also searches for the smallest bundles. Results of these searches are kept in
  memory, and none was kept before the search.
- *plan*: the whole run of a Python program that plans all protocols for a task, compared with a
  time limit. "Cold" starts with an empty cache on disk, and "warm" finds the same plan in the
  cache.
- *plan a survey* and *run a survey*: the whole command `headcount survey plan` or `headcount survey
  run`, with an empty cache, for a survey of 12 questions of all kinds. A plan is for 2,000 people.
  With `--margin`, the plan also searches for the smallest ε and the smallest crowd for this margin,
  and there is no limit. A run reads a file with a row for each person.
- *simulate*: a tally that is drawn without making messages, compared with a tally of messages.
- *durable responses*: sealed responses of 8 messages over real HTTP, each answered with 201 when it
  is on the disk. The peer is a bare Starlette application on the same server. It writes the same
  rows to SQLite, also in groups, and checks nothing. The two took turns.
- *open and count*: new processes of the analyzer open sealed messages and count them. The peer only
  decrypts the same messages, in as many new processes.
- *last of … responses to results*: a survey of 8 questions whose noise the shuffler adds, so that
  everybody sends 8 messages. The time includes closing, mixing, handing over, opening, counting and
  estimating, in real processes on one machine. It is compared with a limit. The
  largest memory of each service with its processes is also compared with a limit. If people add the
  noise, they send more messages, and the time grows in proportion.
- *slow phone*: the page on which people answer, in Chromium. It emulates a network with 1.6 Mbit/s
  and a round trip of 150 ms, and a processor that is four times slower. The first question is shown
  after the page has checked the document and the person has agreed. The time that a person takes to
  read and to click is not counted. The noise of 12 answers is drawn and each message is sealed.
- *random bytes*: the source of random bytes, compared with the bare cipher. A ratio of 1 is the
  speed of the cipher.

Everything ran in one process on one thread, except that comparisons on files and of the collection
service used all cores. Most times are the best of several calls, which alternated with those of the
peer. The first call was not counted. Some times are those of a single call: calibrations, plans
with an empty cache, surveys, the messages in *simulate*, and separate calls for each person. "Times
faster" is the peer's time, or the limit, divided by Headcount's time or memory. "Wanted" is the
target for this ratio, and – means that there is none. Lines were measured at different times, and
other programs may have slowed down both sides. So compare the ratios, not the times of different
lines.
"""


def processor() -> str:
    """The model of the processor, if the system states it."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def machine() -> str:
    return (
        f"Measured on: {processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, headcount {hc.__version__}.\n"
    )


def cells(line: Comparison) -> tuple[str, ...]:
    """A line of the table as it is shown."""
    ratio = line.ratio
    shown = "–" if ratio is None else f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2f}"
    return line.subject, line.ours, line.peer, line.theirs, shown, line.wanted


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns, which is readable in a terminal, too."""
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    rules = ["-" * width for width in widths]
    return "".join(
        "| " + " | ".join(map(str.ljust, row, widths)) + " |\n" for row in (_HEADINGS, rules, *rows)
    )


def known_rows() -> list[tuple[str, ...]]:
    """The current lines of the page."""
    lines = [line for line in _PAGE.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:]]


def replaced(rows: list[tuple[str, ...]], fresh: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The lines with new ones of a section, in the place of its first old line or at the end."""
    subjects = {row[0] for row in fresh}
    at = next((at for at, row in enumerate(rows) if row[0] in subjects), len(rows))
    return [*rows[:at], *fresh, *(row for row in rows[at:] if row[0] not in subjects)]


def main() -> None:
    """Measure all sections, or only the named ones. New lines replace the old ones of a section."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has bytecode
    named = sys.argv[1:]
    if unknown := set(named) - set(SECTIONS):
        sys.exit(f"sections must be among {', '.join(SECTIONS)}, got {', '.join(unknown)}")
    if not named:
        accuracy.write()
        audits.write()
    rows = known_rows() if named else []
    for section in named or SECTIONS:
        fresh = []
        for comparison in SECTIONS[section]():
            fresh.append(cells(comparison))
            print(f"measured: {comparison.subject} / {comparison.peer}", flush=True)
        rows = replaced(rows, fresh)
    measured = table(rows)
    print(f"\n{measured}\n{machine()}")
    _PAGE.parent.mkdir(exist_ok=True)
    _PAGE.write_text(f"{_INTRODUCTION}\n{measured}\n{machine()}", encoding="utf-8")


if __name__ == "__main__":
    main()
