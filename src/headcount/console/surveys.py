"""A folder of survey files, and the rounds in which each of them was asked.

The survey file `campus.toml` has its rounds in the folders `campus.rounds/1`, `campus.rounds/2` and
so on. A round has its own key, so that no two rounds share a document.
"""

import json
import re
import shutil
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeAlias

from headcount.collect.analyzer import Analyzer
from headcount.collect.document import Admission, Document
from headcount.collect.pair import Pair
from headcount.collect.refusals import NoResults, UnknownSurvey
from headcount.collect.shuffler import Shuffler, Status
from headcount.collect.store import opened
from headcount.core.budget import Budget
from headcount.core.cached import cached_property
from headcount.core.errors import HeadcountError, InvalidParameter, UnreadableData
from headcount.core.writing import json_text, write_file
from headcount.survey.file import read
from headcount.survey.plan import SurveyPlan, needed_epsilon
from headcount.survey.survey import Survey

State: TypeAlias = Literal["open", "counting", "results", "destroyed"]
MOST_BYTES = 1_000_000  # the size of the largest survey file
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_EPSILON = re.compile(r"(?m)^(\s*epsilon\s*=\s*)[^#\r\n]*?(\s*(?:#.*)?)$")
_MOST_PLANS = 64  # how many plans are kept in memory


class Round:
    """One time that a survey is asked, with both services on this machine."""

    def __init__(self, folder: Path) -> None:
        self.pair = Pair(folder)
        self.number = int(folder.name)
        self._running = False

    @classmethod
    def create(
        cls,
        folder: Path,
        survey: Survey,
        admission: Admission,
        *,
        in_class: bool,
        address: str | None,
        port: int | None,
    ) -> "Round":
        """Write the key and the document of a new round."""
        folder.mkdir(parents=True)
        Pair.create(
            folder,
            lambda key, places: Document.of(survey, key, places, admission),
            address=address,
            port=port,
        )
        write_file(folder / "round.json", json_text({"class": in_class}) + "\n")
        return cls(folder)

    def start(self) -> None:
        """Start both services."""
        if not self._running:
            try:
                self.pair.start()
            except HeadcountError:
                self.pair.stop()
                raise
            self._running = True

    def stop(self) -> None:
        self.pair.stop()
        self._running = False

    @property
    def document(self) -> Document:
        return self.pair.document

    @property
    def address(self) -> str:
        """The address at which people answer."""
        return f"{self.document.addresses.shuffler}/surveys/{self.document.digest}/"

    @cached_property
    def in_class(self) -> bool:
        """Whether the round is in class mode, which shows the exact number of responses."""
        return bool(json.loads((self.pair.folder / "round.json").read_text())["class"])

    @cached_property
    def _shuffler(self) -> Shuffler:
        return Shuffler(opened(str(self.pair.shuffler_store)))

    @cached_property
    def _analyzer(self) -> Analyzer:
        return Analyzer(opened(str(self.pair.analyzer / "analyzer.db")), None)

    @property
    def status(self) -> Status:
        """The state at the shuffler, with the exact number of responses."""
        return self._shuffler.status(self.document.digest)

    @property
    def state(self) -> State:
        if self.results is not None:
            return "results"
        found = self.status.state
        return found if found in ("open", "destroyed") else "counting"

    @property
    def results(self) -> dict[str, Any] | None:
        """The results, or None if there are none yet."""
        try:
            return self._analyzer.results(self.document.digest)
        except (NoResults, UnknownSurvey):
            return None

    def close(self) -> None:
        """Take no more responses. Below the least number of people, this is refused."""
        self._shuffler.close(self.document.digest)

    def destroy(self) -> None:
        """Delete all responses of an open round."""
        self._shuffler.destroy(self.document.digest)

    def codes(self, count: int) -> list[str]:
        """New invitation codes."""
        return self._shuffler.new_codes(self.document.digest, count)


class Folder:
    """The survey files of a folder."""

    def __init__(
        self, place: Path, *, address: str | None = None, shuffler_port: int | None = None
    ) -> None:
        if not place.is_dir():
            raise UnreadableData(f"{str(place)!r} must be a folder")
        self.place, self._address, self._port = place, address, shuffler_port
        self._rounds: dict[Path, Round] = {}
        self._plans: dict[tuple[str, float | None], SurveyPlan] = {}
        self._needed: dict[tuple[str, float], float] = {}
        self._lock = Lock()

    def names(self) -> list[str]:
        """The names of all survey files, without their ending."""
        return sorted(path.stem for path in self.place.glob("*.toml") if path.is_file())

    def path(self, name: str) -> Path:
        """The file of a survey. A name without a file in this folder is refused."""
        if name not in self.names():
            raise UnknownSurvey(f"no survey in this folder has the name {name!r}")
        return self.place / f"{name}.toml"

    def text(self, name: str) -> str:
        """The text of a survey file."""
        path = self.path(name)
        if path.stat().st_size > MOST_BYTES:
            raise UnreadableData(f"a survey file must be smaller than 1 MB, got {path.name!r}")
        try:
            return path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise UnreadableData(f"{path.name!r} must be text in UTF-8, got other bytes") from None

    def survey(self, name: str) -> Survey:
        """The survey in a file. Errors name the line and the fix."""
        return read(self.text(name), f"{name}.toml")

    def save(self, name: str, text: str, *, new: bool) -> None:
        """Write a survey file, if its text is a survey."""
        if not _NAME.fullmatch(name) and (new or name not in self.names()):
            raise InvalidParameter(
                f"`name` must have only letters, digits, - and _, got {name!r}",
                hint="choose a name such as campus",
            )
        rounds = self.place / f"{name}.rounds"
        if new and (name in self.names() or rounds.exists()):
            raise InvalidParameter(
                f"`name` must be new, but there is already {name}.toml or {rounds.name}"
            )
        if self.round(name) is not None:
            raise InvalidParameter(
                "a survey must not change after it was opened", hint="save it under another name"
            )
        read(text, f"{name}.toml")
        write_file(self.place / f"{name}.toml", text)

    # Plans --------------------------------------------------------------------------------------

    def plan(self, name: str, epsilon: float | None = None) -> SurveyPlan:
        """The plan of a survey, with another epsilon if one is given."""
        key = self.text(name), epsilon
        with self._lock:  # two plans at once would take twice as long
            if key not in self._plans:
                survey = self.survey(name)
                if epsilon is not None:
                    survey = replace(survey, budget=Budget(epsilon, survey.budget.delta))
                made = survey.plan()
                made.answers, made.tables, made.odds  # noqa: B018 (they are computed here)
                _remember(self._plans, key, made)
            return self._plans[key]

    def needed(self, name: str, margin: float) -> float:
        """About the smallest epsilon for which privacy alone keeps the errors of all questions
        within `margin`. The margin is a share of the people.
        """
        key = self.text(name), margin
        with self._lock:
            if key not in self._needed:
                _remember(self._needed, key, needed_epsilon(self.survey(name), margin))
            return self._needed[key]

    def use_epsilon(self, name: str, epsilon: float) -> None:
        """Write another epsilon into the survey file. Comments stay."""
        text, wanted = self.text(name), Budget(epsilon, self.survey(name).budget.delta)
        changed = _EPSILON.sub(rf"\g<1>{epsilon:.10g}\g<2>", text)
        if read(changed, f"{name}.toml").budget != wanted:
            raise InvalidParameter(
                f"`epsilon` must stand on a line of its own in {name}.toml",
                hint=f"write epsilon = {epsilon:.10g} below [privacy]",
            )
        self.save(name, changed, new=False)

    # Rounds -------------------------------------------------------------------------------------

    def round(self, name: str) -> Round | None:
        """The last round of a survey, or None if it was never opened."""
        if name not in self.names():
            return None
        found = [
            int(path.name)
            for path in (self.place / f"{name}.rounds").glob("*")
            if path.name.isdecimal() and (path / "round.json").is_file()
        ]
        if not found:
            return None
        place = self.place / f"{name}.rounds" / str(max(found))
        return self._rounds.setdefault(place, Round(place))

    def open(self, name: str, admission: Admission, *, in_class: bool) -> Round:
        """Open a survey: make its key and document, and start both services."""
        with self._lock:
            last = self.round(name)
            if last is not None and last.state in ("open", "counting"):
                raise InvalidParameter("a survey must be closed before it is opened again")
            survey = self.survey(name)
            rounds = self.place / f"{name}.rounds"
            taken = [int(one.name) for one in rounds.glob("*") if one.name.isdecimal()]
            place = rounds / str(max(taken, default=0) + 1)
            try:
                made = Round.create(
                    place, survey, admission,
                    in_class=in_class, address=self._address, port=self._port,
                )  # fmt: skip
                made.start()
            except HeadcountError:
                shutil.rmtree(place)  # nobody could answer in this round
                raise
            self._rounds[place] = made
            return made

    def resume(self) -> None:
        """Start the services of all rounds that are open or whose responses are being counted."""
        for name in self.names():
            last = self.round(name)
            if last is not None and last.state in ("open", "counting"):
                last.start()

    def stop(self) -> None:
        """Stop all services. Open rounds can be resumed."""
        for one in self._rounds.values():
            one.stop()


def example() -> str:
    """The survey file that `headcount survey new` writes."""
    return files("headcount.survey").joinpath("example.toml").read_text(encoding="utf-8")


def _remember(kept: dict[Any, Any], key: Any, value: Any) -> None:
    if len(kept) >= _MOST_PLANS:
        kept.pop(next(iter(kept)))
    kept[key] = value
