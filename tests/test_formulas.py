"""Formulas in plain text are found, and become TeX that means the same."""

import html
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from docs import formulas, generate, typeset  # noqa: E402


def shown(text: str, *, capitals: bool = False, stacked: formulas.Stacked = "none") -> str:
    """The text with formulas between dollar signs."""
    found = formulas.split(text, capitals=capitals, stacked=stacked)
    return "".join(piece if isinstance(piece, str) else f"${piece.tex}$" for piece in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for ε ≤ 1, n people", r"for $\varepsilon \le 1$, $n$ people"),
        ("a = e^{−ε/L}.", r"$a = e^{-\varepsilon/L}$."),
        ("variance 2a/(1−a)² in levels", r"variance $2 a/(1 - a)^{2}$ in levels"),
        ("ĉ = (Σy − qn)/(1−2q)", r"$\hat{c} = (\sum y - qn)/(1 - 2 q)$"),
        ("x ∈ {0, …, k−1} a bucket", r"$x \in \{0,\ \dots,\ k - 1\}$ a bucket"),
        ("grows with √ln d here", r"grows with $\sqrt{\ln d}$ here"),
        ("at δ = 1e-6", r"at $\delta = 10^{-6}$"),
        ("(−1)^⟨j, x⟩", r"$(-1)^{\langle j,\ x\rangle}$"),
        ("ε1 and x' differ", r"$\varepsilon_{1}$ and $x'$ differ"),
        ("up to 2⁶³ or 2^64", r"up to $2^{63}$ or $2^{64}$"),
        ("(P − e^ε Q)₊", r"$(P - e^{\varepsilon}\,Q)_{+}$"),
    ],
)
def test_formulas_are_found(text: str, expected: str) -> None:
    assert shown(text).replace(r"\varepsilon _", r"\varepsilon_") == expected


@pytest.mark.parametrize(
    "text",
    [
        "A person's value, as in (Warner 1965), is a bit.",
        "I/O and C++ in a CSV file, e.g. 1 in 10,000 (see k-ary response).",
        "GRR_Client takes 3 ms, i.e. 2.65e+03 s; n/a means that nothing was.",
        "Version 0.1.0 of 2026-01-31, 1/2 of all; the people's own.",
        "Nguyên, Gascón and Hölder: by 50 % or so.",
    ],
)
def test_prose_stays_prose(text: str) -> None:
    assert shown(text) == text


def test_long_fractions_are_stacked() -> None:
    assert shown("√((d−1)/d² + b)/(1−b)", stacked="long") == (
        r"$\dfrac{\sqrt{\dfrac{d - 1}{d^{2}} + b}}{1 - b}$"
    )
    assert shown("near 1/ε or n^(−β/(2β+1))", stacked="long") == (
        r"near $1/\varepsilon$ or $n^{-\beta/(2 \beta + 1)}$"
    )
    assert shown("1/ε", stacked="all") == r"$\dfrac{1}{\varepsilon}$"


def test_no_power_or_index_is_left_in_pages_of_protocols() -> None:
    """All formulas in docstrings are understood. No sign of a power, an index or a root is left."""
    for path, make in generate.pages_made().items():
        if path.startswith("protocols/"):
            text = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)|#+ [^\n]*", "", make(), flags=re.DOTALL)
            found = formulas.split(html.unescape(text), capitals=True)
            prose = "".join(piece for piece in found if isinstance(piece, str))
            assert not re.findall(r".*(?:\^|\w_\w|√|Σ).*", prose), path


def test_code_and_headings_are_left_alone() -> None:
    page = "<h2>At ε</h2><p>At ε = 1, <code>ε = 1</code> &lt; n</p>"
    found = list(typeset.pieces(page, capitals=False))
    assert [piece.tex for piece in found if isinstance(piece, formulas.Formula)] == [
        r"\varepsilon = 1",
        "n",
    ]
    assert "<code>ε = 1</code>" in "".join(piece for piece in found if isinstance(piece, str))


@pytest.mark.slow
def test_katex_refuses_what_it_does_not_understand() -> None:
    assert 'class="katex"' in typeset.rendered([r"\varepsilon"])[0]
    assert typeset.typeset("<p>At ε, n</p>", capitals=False).count(",</span> <span") == 1
    page = "<nav>At ε</nav><article><p>At ε</p></article>"
    shown = typeset.typeset_article(page, capitals=False)
    assert shown.startswith("<nav>At ε</nav><article><p>At <span")
    with pytest.raises(RuntimeError, match="KaTeX"):
        typeset.rendered([r"\unheard"])
