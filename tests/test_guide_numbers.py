"""The numbers of the guide: the page holds what the library computes."""

import json
import subprocess
import sys

import pytest

from guide_pages import embedded
from headcount.guide.numbers import numbers


def test_page_holds_what_the_library_computes() -> None:
    assert embedded() == json.loads(json.dumps(numbers()))


def test_module_prints_the_numbers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headcount.guide"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == embedded()


def test_doorbell() -> None:
    found = embedded()["doorbell"]
    assert found["lie_probability"] == pytest.approx(1 / 4)
    assert int(found["device"]["weight"]) / 2**64 == found["lie_probability"]
