"""Missing values, values that do not fit, numbers in bins, and columns of every type."""

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow
import pytest

import headcount as hc

SURE = hc.Budget(500)  # epsilon is so large that a central answer is the truth


def truth(data: Any, task: hc.Task | None = None, **settings: Any) -> Any:
    found = hc.estimate(data, task, budget=SURE, source=hc.SeededSource(1), **settings)
    assert isinstance(found, hc.Estimate)
    if found.buckets is None:
        return found.value
    return dict(zip(found.buckets, found.value.tolist(), strict=True))


def refusal(data: Any, task: hc.Task | None = None, **settings: Any) -> str:
    with pytest.raises(hc.HeadcountError) as refused:
        hc.estimate(data, task, budget=SURE, **settings)
    assert "\n" not in str(refused.value)
    return str(refused.value)


NONE: list[Any] = [1, None, 0, 1, None, None, None]


def test_missing_values() -> None:
    assert truth(NONE, hc.Count(), missing="drop") == 2
    assert truth(NONE, hc.Count(), missing=1) == 6
    assert truth(NONE, hc.Count(), missing=0) == 2
    said = refusal(NONE, hc.Count())
    assert "everyone must have a value, got none for person 2, and 3 more like it" in said
    assert "person 5, person 6, …" in said
    words = ["a", None, "b"]
    assert truth(words, hc.Histogram(["a", "b"]), missing="b") == {"a": 1, "b": 2}
    assert "`missing` must be error, drop, bucket, or one of a, b" in refusal(
        words, hc.Histogram(["a", "b"]), missing="c"
    )
    assert "must be error, drop, bucket, or 0 or 1, got 7" in refusal(NONE, hc.Count(), missing=7)
    assert "must have at least one row" in refusal([None, None], hc.Count(), missing="drop")
    assert "got none for person 1" in refusal([None, None], hc.Count())


def test_what_is_left_out_is_said_to_be_open() -> None:
    found = hc.estimate(NONE, hc.Count(), budget=SURE, missing="drop")
    assert isinstance(found, hc.Estimate)
    assert "it is not hidden which people have no value" in found.guarantee.neighbors
    filled = hc.estimate(NONE, hc.Count(), budget=SURE, missing=0)
    assert isinstance(filled, hc.Estimate)
    assert filled.guarantee.neighbors == "replace one person's value"


def test_no_number_is_a_missing_one() -> None:
    data = np.array([0.5, np.nan, 1.0])
    assert "got nan from person 2" in refusal(data, hc.Mean(0, 1))
    assert truth(data, hc.Sum(0, 1), missing="drop") == pytest.approx(1.5, abs=0.1)
    assert truth(data, hc.Sum(0, 1), missing=1) == pytest.approx(2.5, abs=0.1)
    assert "got nan from person 2" in refusal(data, hc.Sum(0, 1), outside="clamp")
    assert "got nan from person 2" in refusal(data, bins=[0, 0.5, 1], outside="clamp")
    assert "got nan from person 2" in refusal(data, bins=[0, 0.5, 1], outside="other")


def test_values_outside_are_counted_and_shown() -> None:
    data = [1, 0, 7, 0, 8, 9, 10, 1]
    said = refusal(data, hc.Count())
    assert "every value must be 0 or 1, got 7 from person 3, and 3 more like it" in said
    assert ": 8 from person 5, 9 from person 6, …" in said
    many = pyarrow.concat_tables([pyarrow.table({"a": [0, 1]})] * 50 + [pyarrow.table({"a": [5]})])
    assert "got 5 from person 101" in refusal(many, hc.Count())
    assert "from row 3" in refusal({"a": data, "who": data}, hc.Count(), column="a", person="who")


def test_values_outside_are_clamped() -> None:
    ages = [-5, 10, 50, 200]
    assert truth(ages, hc.Sum(0, 100, whole=True), outside="clamp") == 160
    assert truth(ages, bins=[0, 20, 100], outside="clamp") == {"[0, 20)": 2, "[20, 100]": 2}
    said = refusal(ages, hc.Histogram(100), outside="clamp")
    assert "`outside` may be clamp only with numbers within bounds or with bins" in said


def test_everything_else_is_a_bucket() -> None:
    words = ["red", "pink", "blue", "red", "lilac"]
    counts = truth(words, hc.Histogram(["red", "blue"]), outside="other")
    assert counts == {"red": 2, "blue": 1, "other": 2}
    counts = truth([0, 5, 1, -1, 2**60], hc.Histogram(2), outside="other")
    assert counts == {"0": 1, "1": 1, "other": 3}
    counts = truth([3, 18, 99, -1], bins=[0, 18, 65], outside="other")
    assert counts == {"[0, 18)": 1, "[18, 65]": 1, "other": 2}
    assert "no bucket may be named 'other'" in refusal(
        words, hc.Histogram(["red", "other"]), outside="other"
    )
    assert "other only with a histogram" in refusal([1], hc.Mean(0, 1), outside="other")
    assert "`outside` must be one of error, clamp, other" in refusal(
        [1], hc.Count(), outside="ignore"
    )


def test_bins() -> None:
    ages = [0, 17, 18, 29, 30, 64, 65, 120]
    names = ["[0, 18)", "[18, 30)", "[30, 65)", "[65, 120]"]
    for kind in (np.int8, np.uint64, np.float32, np.float64):
        found = truth(np.array(ages, dtype=kind), bins=[0, 18, 30, 65, 120])
        assert found == dict.fromkeys(names, 2)
    assert truth([0.1, 0.25, 0.5], bins=[0, 0.25, 0.5]) == {"[0, 0.25)": 1, "[0.25, 0.5]": 2}
    said = refusal([1, 121, -1], bins=[0, 18, 30, 65, 120])
    assert "must be a number from 0 to 120, got 121 from person 2, and 1 more like it" in said
    for wrong in ([0, 1], [0, 5, 5], [5, 1, 0], [0, float("nan"), 1], "0,1,2", [0, "a", 2]):
        assert "`bins` must be" in refusal([1], bins=wrong)
    assert "`bins` must come without a task" in refusal([1], hc.Count(), bins=[0, 1, 2])
    assert "got text like 'a'" in refusal(["a"], bins=[0, 1, 2])
    assert "there must be a task or `bins`" in refusal([1])


def test_huge_whole_numbers_are_not_rounded() -> None:
    """Neighbors beyond 2^53, where floats have gaps, stay different. So do those beyond 2^63."""
    for base in (2**53, 2**62, 2**63, 2**64 - 2):
        kind = np.uint64 if base >= 2**63 else np.int64
        data = np.array([base, base + 1, base + 1], dtype=kind)
        assert truth(data, hc.Histogram([base, base + 1])) == {base: 1, base + 1: 2}
        said = refusal(data, hc.Histogram([base, 5]))
        assert f"got {base + 1} from person 2, and 1 more" in said
    near = np.array([2**53, 2**53 + 1])
    assert truth(near, bins=[0, 2**53 + 1, 2**60]) == {
        f"[0, {2**53 + 1})": 1, f"[{2**53 + 1}, {2**60}]": 1,
    }  # fmt: skip
    assert "got 18446744073709551615" in refusal(
        np.array([2**64 - 1], dtype=np.uint64), hc.Sum(0, 9, whole=True)
    )


TEXTS = [
    pyarrow.string(), pyarrow.large_string(), pyarrow.string_view(),
    pyarrow.dictionary(pyarrow.int8(), pyarrow.string()),
]  # fmt: skip


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_words_of_every_layout(kind: pyarrow.DataType) -> None:
    words = pyarrow.array(["a", "b", None, "b"]).cast(kind)
    assert truth(words, hc.Histogram(["b", "a"]), missing="drop") == {"b": 2, "a": 1}
    assert truth(words, hc.Histogram(["b", "a"]), missing="a") == {"b": 2, "a": 2}
    assert "got 'a' from person 1" in refusal(words, hc.Histogram(["b", "c"]), missing="drop")
    opened = hc.estimate(
        words, hc.Histogram(["b", "x"], open=True), budget=hc.Budget(1, 0.5), missing="drop",
        trust="shuffle", protocol="shuffle.hashed-histogram",
    )  # fmt: skip
    assert isinstance(opened, hc.Estimate)
    assert opened.users == 3


NUMBERS = [
    pyarrow.int8(), pyarrow.uint8(), pyarrow.int16(), pyarrow.uint16(), pyarrow.int32(),
    pyarrow.uint32(), pyarrow.int64(), pyarrow.uint64(), pyarrow.float16(), pyarrow.float32(),
    pyarrow.float64(), pyarrow.decimal128(5, 2), pyarrow.decimal256(9, 0),
    pyarrow.dictionary(pyarrow.int8(), pyarrow.int64()),
]  # fmt: skip


@pytest.mark.parametrize("kind", NUMBERS, ids=str)
def test_numbers_of_every_type(kind: pyarrow.DataType) -> None:
    if pyarrow.types.is_dictionary(kind):
        data = pyarrow.array([3, 0, 5, 5]).dictionary_encode()
    elif pyarrow.types.is_decimal(kind):
        data = pyarrow.array([decimal.Decimal(x) for x in (3, 0, 5, 5)]).cast(kind)
    else:
        data = pyarrow.array(np.array([3, 0, 5, 5], dtype=kind.to_pandas_dtype()))
    assert truth(data, hc.Sum(0, 5, whole=True)) == 13
    assert truth(data, hc.Mean(0, 5)) == pytest.approx(13 / 4, abs=0.1)
    assert truth(data, hc.Histogram(6)) == {0: 1, 1: 0, 2: 0, 3: 1, 4: 0, 5: 2}
    assert truth(data, hc.Histogram([5, 3, 0])) == {5: 2, 3: 1, 0: 1}
    assert truth(data, bins=[0, 4, 5]) == {"[0, 4)": 2, "[4, 5]": 2}
    shown = {"3", "3.0", "3.00"}
    assert any(f"got {three} from person 1," in refusal(data, hc.Count()) for three in shown)


@pytest.mark.parametrize(
    "values",
    [
        [datetime.date(2020, 1, 1)],
        [datetime.datetime(2020, 1, 1)],
        [datetime.timedelta(1)],
        [[1, 2]],
        [{"a": 1}],
        [b"raw"],
    ],
    ids=str,
)
def test_other_types_are_refused(values: list[Any]) -> None:
    data = pyarrow.table({"a": values})
    for task in (hc.Count(), hc.Histogram(["a", "b"]), hc.Mean(0, 1)):
        said = refusal(data, task, column="a")
        assert "column 'a' of the data must hold numbers, true/false or text, got " in said


def test_text_and_numbers_are_not_mixed_up() -> None:
    assert "must hold text, got double like 5.0" in refusal([5.0], hc.Histogram(["5", "6"]))
    assert truth([5, 6, 5], hc.Histogram(["5", "6"])) == {"5": 2, "6": 1}
    assert "must hold numbers or true/false, got text like '5'" in refusal(["5"], hc.Histogram(6))


def test_a_million_categories() -> None:
    """None of them was declared. The refusal is still one line, and counts them."""
    words = [f"w{i}" for i in range(10**6)]
    said = refusal(words, hc.Histogram(["w0", "w1"]))
    assert len(said) < 200
    assert "got 'w2' from person 3, and 999,997 more like it" in said
    counts = truth(words, hc.Histogram(["w0", "w1"]), outside="other")
    assert counts == {"w0": 1, "w1": 1, "other": 999_998}


def test_long_values_are_shown_in_short() -> None:
    assert len(refusal(["x" * 10**6], hc.Histogram(["a", "b"]))) < 200


def test_bytes_that_are_no_text() -> None:
    raw = pyarrow.array([b"a", b"\xff\xfe"])
    text = pyarrow.StringArray.from_buffers(2, raw.buffers()[1], raw.buffers()[2])
    assert r"b'\xff\xfe' from person 2" in refusal(text, hc.Histogram(["a", "b"]))
