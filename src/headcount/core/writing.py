"""Results on their way into files: JSON, and one refusal for places that cannot be written to."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headcount.core.errors import UnreadableData


def json_text(document: Mapping[str, Any]) -> str:
    """JSON has no infinity: it becomes null."""
    return json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_writable(path: Path) -> None:
    """Refuse a place that cannot be written to, before the work that would fill it; what is there
    stays as it is.
    """
    if not path.absolute().parent.is_dir():
        raise UnreadableData(f"there must be a folder {str(path.parent)!r} to write to, got none")
    new = not path.exists()
    with written(path):
        path.open("ab").close()
        if new:
            path.unlink()


@contextmanager
def written(path: Path) -> Iterator[None]:
    """What goes wrong while a file is written becomes a refusal of one line."""
    try:
        yield
    except OSError as error:
        raise UnreadableData(
            f"{str(path)!r} must be a place to write to, got: {error.strerror or error}"
        ) from None
