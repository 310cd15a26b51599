"""The default engine: this process, its threads, and no more memory than a few batches.

One pass counts. Of a task of many values, rows are kept, encoded, if they are few or cannot be read
again; otherwise a second pass reads them anew.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headcount.core.errors import InvalidValue
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.data.chosen import Chosen
from headcount.data.counting import Counting
from headcount.data.cutting import pieces
from headcount.data.engine import Crowds, Engine, Survey, check_same
from headcount.data.parts import Numbering, Part, Parts
from headcount.data.question import Question
from headcount.data.rows import Rows
from headcount.data.sources import rows_of
from headcount.road.people import Group, Progress
from headcount.road.pieces import Piece, collected, workers_for

_KEPT = 2**26  # bytes of encoded rows that are kept rather than read again


class LocalEngine(Engine):
    name = "local"

    def survey(self, data: Any, question: Question, source: Source, progress: Progress) -> Crowds:
        rows = rows_of(data)
        groups = Numbering.of_groups(question.groups)
        parts = Parts(rows, question, groups)
        counting = Counting(question, groups)
        persons = None
        if question.person is not None:
            chosen = Chosen(question.rows_per_person, source)
            for part, share in parts:
                chosen.add(part)
                progress(share)
            whole = chosen.part()
            kept: list[Part] | None = []
            if whole is not None:
                counting.add(whole)
                kept, persons = [replace(whole, persons=None)], whole.persons
        else:
            kept, size = [], 0
            for part, share in parts:
                counting.add(part)
                progress(share)
                size += part.size
                if kept is not None and not question.cleaning.few_values:
                    kept.append(part)
                    if rows.again and size > _KEPT:
                        kept = None
        surveys = counting.surveys()
        if not surveys:
            raise InvalidValue(
                f"column {question.cleaning.column!r} of {rows.name} must have at least one row "
                f"with a value, got none"
            )
        if persons is None:
            people = parts.left_out.rows + sum(survey.users for survey in surveys.values())
        else:
            people = parts.left_out.besides(persons)
        return LocalCrowds(rows, question, groups, surveys, people, kept)


@dataclass(frozen=True, eq=False)
class LocalCrowds(Crowds):
    rows: Rows
    question: Question
    groups: Numbering
    surveys: Mapping[Group, Survey]
    people: int
    kept: list[Part] | None

    def tallies(
        self, protocols: Mapping[Group, Protocol], source: Source, progress: Progress
    ) -> Mapping[Group, Tally]:
        sources = {group: source.part(at) for at, group in enumerate(self.surveys)}
        made = (
            (group, Piece(protocols[group], codes, sources[group].part(number)))
            for group, number, codes in pieces(self._parts(), protocols, self.groups, progress)
        )
        most = max(self.surveys[group].users for group in protocols)
        out = collected(made, workers_for(source, protocols, most))
        check_same(self.surveys, out, protocols, self.rows.name)
        return out

    def _parts(self) -> Iterable[tuple[Part, float]]:
        if self.kept is None:
            return Parts(self.rows, self.question, self.groups)
        kept = self.kept
        return ((part, (at + 1) / len(kept)) for at, part in enumerate(kept))
