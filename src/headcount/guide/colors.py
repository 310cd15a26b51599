"""The colors of the trust models, so that the page and the figures agree."""

from typing import Any

from headcount.core.budget import Trust
from headcount.plot.palette import trust_color


def numbers() -> dict[str, Any]:
    return {str(trust): trust_color(trust) for trust in Trust}
