"""Audit other libraries, show the results, and write them to docs/audits-of-peers.md."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import headcount as hc
from benchmarks.audited import Audited
from benchmarks.audited_curators import diffprivlib, opendp
from benchmarks.audited_oracles import multi_freq_ldpy, pure_ldp

_PAGE = Path(__file__).parents[1] / "docs" / "audits-of-peers.md"
_LIBRARIES = ("pure-ldp", "multi-freq-ldpy", "diffprivlib", "opendp")
_CONFIDENCE = 0.9999
_CERTAIN = 1 - 1e-9  # the confidence of the second audit of a refuted claim, with new runs
_HEADINGS = (
    "library",
    "mechanism",
    "claim",
    "neighbors",
    "ε, at least",
    "runs on each side",
    "event",
    "why",
)
_INTRODUCTION = """\
# Audits of peers

`make bench`, or `python -m benchmarks.audits` alone, writes this page. Do not edit it.

[`hc.audit`](auditing.md) was run on other libraries, which this page calls peers. It uses only
their outputs. "Consistent" means that the runs showed no violation at a confidence of
{confidence:g}. A "refuted" claim was refuted twice. The second audit used new runs and a confidence
of 1 − 1e-9, and its result is shown. The measured ε is
a lower bound: the true ε may be far larger, or infinite.

*Event* says which outputs were counted, and what share of the runs on each dataset gave one of
these outputs. For instance, "whole output: one of 4 values; 0.748 against 0" means that the whole
output was one of four specific values in 0.748 of the runs on one dataset, and in no run on the
other. If an output has several numbers, "number 0" is the first of them. An event may concern the
following properties of a number or an output:

- "Value" says which whole numbers a number is equal to.
- "Size" says in which ranges a number lies. The ranges were chosen so that each has about equally
  many outputs.
- "Exact value" says which specific floats a number is equal to.
- "Last bits" says which power of two the lowest set bit of a float stands for.
- "Odds of all numbers" is a score of an output with several numbers. For each number, the audit
  estimates the logarithm of the odds that such a number comes from one dataset and not from the
  other. The score is the sum of these logarithms.

*Why* is an explanation from the code of the library. In many libraries, the answer is a float plus
a float of noise. Such a sum reveals values through its last bits. This problem is well known, and
it is not a fault of the libraries' formulas.

- pure-ldp and multi-freq-ldpy are audited in the local view, which is one person's report as the
  client returns it. A hashed report is reduced to the part that a server uses: which of two values
  it supports.
- diffprivlib and OpenDP are audited in the central view, which is the release of a curator.
- The claim is the requested ε. For OpenDP, it is the ε that `map` states.
"""


def peers() -> Iterator[Audited]:
    for library in (pure_ldp, multi_freq_ldpy, diffprivlib, opendp):
        yield from library()


def audited(case: Audited) -> hc.Audit:
    """Audit a case. A refuted claim is measured again with all runs: an audit without a claim does
    not stop early.
    """

    def once(claim: float | None, confidence: float) -> hc.Audit:
        return hc.audit(
            case.run,
            case.pairs,
            claim=claim,
            delta=case.delta,
            runs=case.runs,
            confidence=confidence,
            batch=True,
        )

    found = once(case.claim, _CONFIDENCE)
    return replace(once(None, _CERTAIN), claim=case.claim) if found.refuted else found


def line(case: Audited, found: hc.Audit) -> tuple[str, ...]:
    if found.refuted and not case.reason:
        raise RuntimeError(
            f"{case.library}, {case.mechanism} is refuted: state a reason, or check it"
        )
    return (
        case.library,
        case.mechanism,
        f"ε = {case.claim:.4g}" + (f", δ = {case.delta:g}" if case.delta else ""),
        case.relation,
        f"{found.epsilon:.3f}",
        f"{found.runs:,}",
        f"{found.event}; {found.chance:.3g} against {found.other_chance:.3g}",
        case.reason if found.refuted else "",
    )


def table(rows: list[tuple[str, ...]]) -> str:
    headings = _HEADINGS[: len(rows[0])]
    lines = (headings, tuple("---" for _ in headings), *rows)
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def write() -> None:
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of other libraries are not ours
        for case in peers():
            found = audited(case)
            rows.append(line(case, found))
            print("audited:", *rows[-1][:3], found.verdict, sep=" / ", flush=True)
    refuted = [row for row in rows if row[-1]]
    consistent = [row[:-1] for row in rows if not row[-1]]
    versions = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    parts = (
        _INTRODUCTION.format(confidence=_CONFIDENCE),
        f"Audited: {versions}.\n",
        f"## Refuted\n\n{table(refuted)}",
        f"## Consistent\n\n{table(consistent)}",
    )
    _PAGE.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    write()
