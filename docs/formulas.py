"""Finds formulas in the plain text of docstrings and pages, and turns them into TeX. A text is
read from left to right. Wherever a formula can begin, the longest candidate is parsed. It is a
formula if it has something that prose does not have: a Greek letter, a power, or an operator
between variables. Otherwise it is left as prose.
"""

import itertools
import re
import unicodedata
from dataclasses import dataclass
from typing import Literal, TypeAlias

GREEK = {
    "α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "ε": r"\varepsilon",
    "η": r"\eta", "θ": r"\theta", "κ": r"\kappa", "λ": r"\lambda", "μ": r"\mu", "ν": r"\nu",
    "ξ": r"\xi", "π": r"\pi", "ρ": r"\rho", "σ": r"\sigma", "τ": r"\tau", "φ": r"\varphi",
    "χ": r"\chi", "ψ": r"\psi", "ω": r"\omega", "Γ": r"\Gamma", "Δ": r"\Delta", "Φ": r"\Phi",
    "Ω": r"\Omega", "ℓ": r"\ell",
}  # fmt: skip
FUNCTIONS = {
    **{name: rf"\{name}" for name in ("ln", "log", "exp", "max", "min")},
    **{name: rf"\{name}" for name in ("tanh", "sinh", "cosh", "cos", "sin")},
    **{name: rf"\mathrm{{{name}}}" for name in ("Bin", "NB", "Poisson", "Bernoulli")},
    **{name: rf"\mathrm{{{name}}}" for name in ("HS", "binom")},
}
# Words that may occur in formulas.
WORDS = {"low", "high", "zeros", "ones", "reports", "cell", "interval", "rate"}
RELATIONS = {
    "=": "=", "≤": r"\le", "≥": r"\ge", "<": "<", ">": ">", "≠": r"\ne", "~": r"\sim",
    "∈": r"\in", "↦": r"\mapsto", "≈": r"\approx", "‖": r"\,\|\,",
}  # fmt: skip
OPERATORS = {"+": "+", "−": "-", "·": r"\cdot", "±": r"\pm", "×": r"\times", "≫": r"\gg"}
NAMED_OPERATORS = {"mod": r"\bmod"}
BRACKETS = {
    "(": (")", "(", ")"), "[": ("]", "[", "]"), "{": ("}", r"\{", r"\}"),
    "⟨": ("⟩", r"\langle", r"\rangle"), "⌊": ("⌋", r"\lfloor", r"\rfloor"),
    "⌈": ("⌉", r"\lceil", r"\rceil"), "|": ("|", "|", "|"),
}  # fmt: skip
SYMBOLS = {
    "½": r"\tfrac12", "¼": r"\tfrac14", "¾": r"\tfrac34", "⅓": r"\tfrac13", "⅔": r"\tfrac23",
    "∞": r"\infty",
}  # fmt: skip
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋ᵢⱼₜₙ", "0123456789+-ijtn")
NEVER = ("I/O", "n/a", "N/A", "and/or")
Stacked: TypeAlias = Literal["none", "long", "all"]
HAT = "\u0302"
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e([-−+]?\d+))?")
LETTERS = re.compile(rf"(?:[^\W\d_²³¹⁰-₎ᵢⱼₜₙ¼-¾⅐-⅞]{HAT}?)+")


@dataclass
class Formula:
    """A parsed formula: its text, its TeX, and the position at which the text ends."""

    text: str
    tex: str
    end: int


def split(text: str, *, capitals: bool = False, stacked: Stacked = "none") -> list[str | Formula]:
    """A text as prose and formulas, in turn.

    `capitals` says whether single capital letters are variables, too. `stacked` says which
    fractions are set with the numerator above the denominator: none, those of long terms, or all.
    """
    text = re.sub(r"(?<!\w)\w(?!\w)", lambda one: unicodedata.normalize("NFD", one[0]), text)
    pieces: list[str | Formula] = []
    prose, at = "", 0
    while at < len(text):
        found = _begin(text, at, capitals=capitals, stacked=stacked)
        if found:
            pieces += [*([prose] if prose else []), found]
            prose, at = "", found.end
        else:
            # No formula begins within a word or a number.
            word = re.compile(r"[^\W_]+|.", re.DOTALL).match(text, at)
            assert word
            prose, at = prose + word[0], word.end()
    return [*pieces, *([unicodedata.normalize("NFC", prose)] if prose else [])]


def _begin(text: str, at: int, *, capitals: bool, stacked: Stacked) -> Formula | None:
    before = text[at - 1] if at else " "
    if before.isalnum() or before in "_'’.#&@/$%-" or text.startswith(NEVER, at):
        return None
    parser = _Parser(text, at, stacked=stacked)
    try:
        tex = parser.expression()
    except _NoFormula:
        return None
    end = parser.at
    source = text[at:end]
    after = text[end : end + 1]
    if after.isalnum() or after == "_" or (after in "'’" and text[end + 1 : end + 2].isalpha()):
        return None
    if len(source) == 1:
        usual = "[b-zB-HJ-Z]" if capitals else "[b-dfhj-rt-z]"
        lone = source in GREEK or re.match(usual, source)
        shortens = source.isascii() and re.match(r"\.\w|-\w", text[end : end + 2])
        return Formula(source, tex, end) if lone and not shortens else None
    return Formula(source, tex, end) if parser.signals and parser.variables else None


class _NoFormula(Exception):
    pass


@dataclass
class _Parser:
    text: str
    at: int
    stacked: Stacked
    signals: int = 0  # the number of signs that this is not prose
    variables: int = 0
    depth: int = 0

    def peek(self, offset: int = 0) -> str:
        return self.text[self.at + offset : self.at + offset + 1]

    def spaces(self) -> int:
        found = re.compile(r"[ \n\u00a0]*").match(self.text, self.at)
        return found.end() if found else self.at

    def expression(self) -> str:
        """Terms with operators between them."""
        tex = self.sign() + self.term()
        while True:
            saved = self.at, self.signals, self.variables
            try:
                tex += self.operation()
            except _NoFormula:
                self.at, self.signals, self.variables = saved
                return tex

    def sign(self) -> str:
        if self.peek() in ("−", "±") and self.peek():
            self.at += 1
            self.signals += 1
            return OPERATORS[self.text[self.at - 1]]
        return ""

    def operation(self) -> str:
        start = self.at
        self.at = self.spaces()
        spaced = self.at > start
        if series := re.compile(r", …, |, …(?=[)\]}])").match(self.text, start):
            self.at = series.end()
            self.signals += 1
            return r",\ \dots" + (rf",\ {self.expression()}" if series[0] != ", …" else "")
        for word, tex in NAMED_OPERATORS.items():
            if spaced and self.text.startswith(f"{word} ", self.at):
                self.at += len(word) + 1
                return f" {tex} {self.term()}"
        symbol = self.peek()
        if symbol in RELATIONS or symbol in OPERATORS:
            if symbol in "<>" and not spaced:
                raise _NoFormula
            self.at += 1
            self.at = self.spaces()
            self.signals += 1
            tex = RELATIONS.get(symbol) or OPERATORS[symbol]
            return f" {tex} {self.sign()}{self.term()}"
        raise _NoFormula

    def term(self) -> str:
        """Factors side by side, and such terms divided by each other."""
        tex = self.product()
        while self.peek() == "/" and self.peek(1).strip():
            start = self.at
            saved = self.signals, self.variables
            self.at += 1
            try:
                below = self.sign() + self.product()
            except _NoFormula:
                self.at = start
                self.signals, self.variables = saved
                return tex
            self.signals += 1
            long = any(sign in tex + below for sign in ("(", " + ", " - "))
            if self.stacked == "all" or (self.stacked == "long" and long):
                tex = rf"\dfrac{{{_bare(tex)}}}{{{_bare(below)}}}"
            else:
                tex = f"{tex}/{below}"
        return tex

    def product(self) -> str:
        tex = self.factor()
        while True:
            saved = self.at, self.signals, self.variables
            try:
                tex += self.next_factor()
            except _NoFormula:
                self.at, self.signals, self.variables = saved
                return tex

    def next_factor(self) -> str:
        """A factor directly after another. After a space, it must be something that prose lacks."""
        start = self.at
        self.at = self.spaces()
        if self.at == start:
            if self.peek() in "|[" and self.depth and self.text[start - 1] not in "^1":
                raise _NoFormula  # this bracket closes
            return " " + self.factor()
        begin = self.at
        tex = self.factor()
        source = self.text[begin : self.at]
        before = self.text[max(0, start - 12) : start].split(" ")[-1]
        follows = self.text[self.at : self.at + 2]
        if source[0] == "(":
            fits = "^" in source.rpartition(")")[2]
        elif source[0] in "√Σ" or source.startswith(tuple(f"{name}" for name in FUNCTIONS)):
            fits = True
        elif len(source) == 1:
            fits = ("^" in before or before[-1:] in "²³") and (
                follows[:1] in ("/", "(", ")", "·", "^", "_") or follows in (" +", " −", " ·")
            )
        else:
            fits = bool(re.match(r"\w[_^(']", source)) and not source[0].isdigit()
        if not fits:
            raise _NoFormula
        return r"\," + tex

    def factor(self) -> str:
        symbol = self.peek()
        number, letters = NUMBER.match(self.text, self.at), LETTERS.match(self.text, self.at)
        if symbol and symbol in BRACKETS:
            tex = self.scripts(self.bracket())
        elif symbol in SYMBOLS:
            self.at += 1
            self.signals += 1
            self.variables += symbol == "∞"
            tex = SYMBOLS[symbol]
        elif symbol == "√":
            tex = self.root()
        elif symbol == "Σ":
            tex = self.sum()
        elif symbol == "·" and self.text[self.at - 1] == "(":  # in place of a variable
            self.at += 1
            tex = r"{\cdot}"
        elif number:
            tex = self.number(number)
        elif letters:
            tex = self.letters(letters[0])
        else:
            raise _NoFormula
        return tex

    def sum(self) -> str:
        self.at += 1
        self.signals += 1
        self.variables += 1
        tex = self.scripts(r"\sum")
        self.at = self.spaces()
        return f"{tex} {self.product()}"

    def root(self) -> str:
        self.at += 1
        self.signals += 1
        self.variables += 1
        return rf"\sqrt{{{_bare(self.factor())}}}"

    def number(self, number: re.Match[str]) -> str:
        self.at = number.end()
        shown = number[0]
        if number[1]:
            digits = shown.partition("e")[0]
            power = f"10^{{{number[1].replace('−', '-').lstrip('+0')}}}"
            shown = power if digits == "1" else rf"{digits}\cdot {power}"
        return self.scripts(shown.replace(",", "{,}"))

    def letters(self, word: str) -> str:
        self.at += len(word)
        if word in FUNCTIONS:
            return self.function(word)
        if word in WORDS:
            self.variables += 1
            return self.scripts(rf"\mathrm{{{word}}}")
        bare = word.replace(HAT, "")
        if len(bare) > 3 or not all(letter.isascii() or letter in GREEK for letter in bare):
            raise _NoFormula
        if len(bare) > 1 and not self._product(bare):
            raise _NoFormula
        tex = ""
        for letter, hat in re.findall(rf"(.)({HAT}?)", word):
            self.variables += 1
            self.signals += letter in GREEK or bool(hat)
            shown = GREEK.get(letter, letter)
            tex += rf"\hat{{{shown}}}" if hat else f"{shown} " if letter in GREEK else shown
        if digits := re.compile(r"\d+(?![\d.])").match(self.text, self.at):
            self.at = digits.end()
            tex += f"_{{{digits[0]}}}"
        self.signals += self.peek() == "("  # applied to something
        return self.scripts(tex.strip())

    def _product(self, word: str) -> bool:
        """Whether letters side by side are variables rather than a word."""
        latin = [letter for letter in word if letter.isascii()]
        if latin[-1:] == ["e"] and self.peek() == "^":
            latin.pop()
        if len(latin) > 1 and all(letter.isupper() for letter in latin):
            return False
        greek = len(latin) < len(word)
        return greek or word in ("ux", "uM", "nI") or not set(latin) & set("aeiouyAEIOUY")

    def function(self, word: str) -> str:
        """A function and its argument. If words follow, a power or index is enough."""
        self.variables += 1
        tex = FUNCTIONS[word]
        if digits := re.compile(r"\d+(?=[ (])").match(self.text, self.at):
            self.at = digits.end()
            tex += f"_{{{digits[0]}}}"
        plain = tex
        tex = self.scripts(tex)
        saved = self.at, self.signals, self.variables, self.depth
        try:
            if self.peek() == "(":
                tex += self.scripts(self.bracket())
            elif self.spaces() > self.at:
                self.at = self.spaces()
                tex += f" {self.factor()}"
            else:
                raise _NoFormula
        except _NoFormula:
            if tex == plain:
                raise
            self.at, self.signals, self.variables, self.depth = saved
        self.signals += 1
        return tex

    def bracket(self) -> str:
        """The contents of brackets: expressions between commas."""
        opening = self.peek()
        closing, left, right = BRACKETS[opening]
        self.at += 1
        self.depth += 1
        tex = ""
        while True:
            self.at = self.spaces()
            if self.peek() == "…":
                self.at += 1
                tex += r"\dots"
            else:
                tex += self.expression()
            self.at = self.spaces()
            symbol = self.peek()
            self.at += 1
            if symbol == closing:
                break
            if not symbol or symbol not in ",;":
                raise _NoFormula
            self.signals += 1
            tex += rf"{symbol}\ "
        self.depth -= 1
        self.signals += opening in "⟨⌊⌈"
        if "dfrac" in tex:
            left, right = rf"\left{left}", rf"\right{right}"
        return f"{left}{' ' if left[-1].isalpha() else ''}{tex}{right}"

    def scripts(self, tex: str) -> str:
        """The symbol with its primes, powers and indices."""
        start = len(tex)
        while True:
            symbol = self.peek()
            if symbol in ("'", "′") and not self.peek(1).isalpha() and tex[-1:] not in (")", "}"):
                self.at += 1
                self.signals += 1
                tex += "'"
            elif raised := re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+").match(self.text, self.at):
                self.at = raised.end()
                self.signals += 1
                self.variables += 1
                tex += f"^{{{raised[0].translate(RAISED)}}}"
            elif lowered := re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋ᵢⱼₜₙ]+").match(self.text, self.at):
                self.at = lowered.end()
                self.signals += 1
                tex += f"_{{{lowered[0].translate(LOWERED)}}}"
            elif symbol in ("^", "_"):
                if symbol in tex[start:]:
                    raise _NoFormula
                self.at += 1
                self.signals += 1
                self.variables += 1
                tex += f"{symbol}{{{self.script()}}}"
            else:
                return tex

    def script(self) -> str:
        stacked, self.stacked = self.stacked, "none"
        try:
            return self.script_of_line()
        finally:
            self.stacked = stacked

    def script_of_line(self) -> str:
        if self.peek() == "{":
            return self.bracket()[2:-2]
        if self.peek() == "(":
            return self.bracket()[1:-1]
        if self.peek() in ("|", "⟨"):
            return self.bracket()
        sign = "-" if self.peek() in ("−", "-") else ""
        self.at += len(sign)
        if number := NUMBER.match(self.text, self.at):
            self.at = number.end()
            return sign + number[0]
        found = LETTERS.match(self.text, self.at)
        if not found:
            raise _NoFormula
        return sign + self.letters(found[0])


def _bare(tex: str) -> str:
    """The text without brackets around the whole."""
    for left, right in (("(", ")"), (r"\left(", r"\right)")):
        if tex.startswith(left) and tex.endswith(right):
            inner = tex[len(left) : -len(right)]
            depths = itertools.accumulate((one == "(") - (one == ")") for one in inner)
            if min(depths, default=0) >= 0:
                return inner
    return tex
