"""The default engine, which runs in threads of this process.

The first pass counts people. If the task has many values, a second pass over the rows randomizes
them. If the rows are few, cannot be read again, or were chosen at random for each person, the first
pass keeps the encoded rows in memory, and the second pass reads them there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headcount.core.errors import InvalidValue
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.data.counting import Counting
from headcount.data.encoded_rows import EncodedRows, EncodedTable, Numbering
from headcount.data.engine import Census, Crowds, Engine, check_same
from headcount.data.piece_cutter import pieces
from headcount.data.question import Question
from headcount.data.row_choice import RowChoice
from headcount.data.rows import Rows
from headcount.data.sources import rows_of
from headcount.road.people import Group, Progress
from headcount.road.pieces import Piece, collected, workers_for

_KEPT = 5 * 2**25  # if the encoded rows take more bytes than this, they are not kept but read again


class LocalEngine(Engine):
    name = "local"

    def census(self, data: Any, question: Question, source: Source, progress: Progress) -> Crowds:
        rows = rows_of(data)
        groups = Numbering.of_groups(question.groups)
        table = EncodedTable(rows, question, groups)
        counting = Counting(question, groups)
        persons = None
        if question.person is not None:
            choice = RowChoice(question.rows_per_person, source)
            for batch, share in table:
                choice.add(batch)
                progress(share)
            parts = choice.rows()
            for part in parts:
                counting.add(part)
            persons = [part.persons for part in parts if part.persons is not None]
            kept: list[EncodedRows] | None = [replace(part, persons=None) for part in parts]
        else:
            kept, size = [], 0
            for batch, share in table:
                counting.add(batch)
                progress(share)
                size += batch.size
                if kept is not None and not question.cleaning.few_values:
                    kept.append(batch)
                    if rows.again and size > _KEPT:
                        kept = None
        censuses = counting.censuses()
        if not censuses:
            raise InvalidValue(
                f"column {question.cleaning.column!r} of {rows.name} must have at least one row "
                f"with a value, got none"
            )
        if persons is None:
            people = table.left_out.rows + sum(census.users for census in censuses.values())
        else:
            people = table.left_out.and_persons(persons)
        return LocalCrowds(rows, question, groups, censuses, people, kept)


@dataclass(frozen=True, eq=False)
class LocalCrowds(Crowds):
    rows: Rows
    question: Question
    groups: Numbering
    censuses: Mapping[Group, Census]
    people: int
    kept: list[EncodedRows] | None

    def tallies(
        self, protocols: Mapping[Group, Protocol], source: Source, progress: Progress
    ) -> Mapping[Group, Tally]:
        sources = {group: source.part(at) for at, group in enumerate(self.censuses)}
        made = (
            (group, Piece(protocols[group], codes, sources[group].part(number)))
            for group, number, codes in pieces(self._batches(), protocols, self.groups, progress)
        )
        most = max(self.censuses[group].users for group in protocols)
        out = collected(made, workers_for(source, protocols, most))
        check_same(self.censuses, out, protocols, self.rows.name)
        return out

    def _batches(self) -> Iterable[tuple[EncodedRows, float]]:
        """All encoded rows in batches. Each batch comes with the share of rows read so far."""
        if self.kept is None:
            return EncodedTable(self.rows, self.question, self.groups)
        kept = self.kept
        return ((batch, (at + 1) / len(kept)) for at, batch in enumerate(kept))
