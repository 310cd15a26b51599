"""The file of kept answers: one JSON document, which is written completely or not at all.

The file has people's true answers, so a new file can be read only by its owner. A wave writes the
file before messages are sent. Otherwise a program that stops too early would randomize the same
answers again.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from headcount.core.errors import HeadcountError, InvalidParameter, InvalidValue, UnreadableData
from headcount.core.protocol import option_names
from headcount.core.writing import json_text, write_file
from headcount.planner.cache import digest
from headcount.survey.design import Design, Release

_FORMAT, _VERSION = "headcount.kept-answers", 1


@dataclass
class KeptFile:
    """A file of kept answers. It remembers the digest of what it has read or written last."""

    path: Path
    _last: str | None = field(default=None, init=False)

    def read(self, take: Callable[[Mapping[str, Any]], None]) -> None:
        """Call `take` with the contents of the file, if there is a file. A file that was damaged,
        or whose contents `take` refuses, is refused.
        """
        found = self._found()
        if found is None:
            return
        try:
            take(found)
        except HeadcountError as error:
            raise self._refusal(str(error)) from None
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise self._refusal(f"they are not complete: {type(error).__name__}") from None
        self._last = found["digest"]

    def write(self, contents: Mapping[str, Any]) -> None:
        """Replace the contents of the file. A file that another program has changed in the meantime
        is refused.
        """
        found = self._found()
        if (None if found is None else found["digest"]) != self._last:
            raise InvalidParameter(
                f"{str(self.path)!r} must be used by one program at a time, but it has changed "
                "since it was opened",
                hint="open the kept answers again",
            )
        document = {"format": _FORMAT, "version": _VERSION, **contents}
        last = digest(json.loads(json_text(document)))  # the digest after a round trip through JSON
        write_file(self.path, json_text({**document, "digest": last}) + "\n", private=True)
        self._last = last

    def _found(self) -> dict[str, Any] | None:
        """The document in the file, or None if there is no file."""
        try:
            found = json.loads(self.path.read_text())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refusal(str(error.strerror)) from None
        except (ValueError, RecursionError):
            raise self._refusal("the file is not JSON") from None
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            raise self._refusal("the file is of another kind")
        if found.get("version") != _VERSION:
            raise self._refusal(f"the version must be {_VERSION}")
        rest = {name: value for name, value in found.items() if name != "digest"}
        if digest(rest) != found.get("digest"):
            raise self._refusal("the file was changed after it was written")
        return found

    def _refusal(self, reason: str) -> UnreadableData:
        return UnreadableData(f"{str(self.path)!r} must have kept answers: {reason}")


def fingerprint(design: Design) -> str:
    """A digest of the releases. It shows which survey the kept answers belong to."""
    return digest([_facts(one) for one in design.releases])


def _facts(release: Release) -> dict[str, Any]:
    built = release.protocol
    return {
        "ids": release.ids,
        "share": release.share,
        "protocol": built.name,
        "task": built.task.to_dict(),
        "budget": asdict(built.budget),
        "crowd": asdict(built.crowd),
        "options": {name: repr(getattr(built, name)) for name in option_names(type(built))},
        "parameters": {name: repr(float(value)) for name, value in built.parameters.items()},
    }


def stored_name(name: Any) -> str | int | float:
    """A person's name as JSON has it."""
    if isinstance(name, str):
        return name
    if isinstance(name, Integral):
        return int(name)
    if isinstance(name, Real):
        return float(name)
    raise InvalidValue(
        "`people` must have words or numbers as names to be kept in a file, got a "
        f"{type(name).__name__}"
    )
