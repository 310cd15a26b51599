"""Steps that an executor runs for stored messages: make them, add noise, and count them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import HeadcountError
from headcount.core.protocol import Protocol, tally_of
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.data.encoded_rows import Numbering
from headcount.data.piece_cutter import Cutter, pieces
from headcount.data.spark.columns import message_column, payload_of
from headcount.data.spark.remote_refusals import RemoteRefusal
from headcount.data.spark.results import Batches, count_result, noise_source, result_batch
from headcount.data.spark.rows import Reader, partition_source, quietly
from headcount.randomness.sources import SeededSource
from headcount.road.people import Group
from headcount.road.pieces import joined

if TYPE_CHECKING:
    import pyarrow

_ROWS = 2**16  # the largest number of rows in a batch that is yielded


@dataclass(frozen=True)
class SendStep:
    """Makes the messages of a group. Each row holds one message. If `mixed` is true, each row also
    has random keys, by which the rows are sorted later.
    """

    reader: Reader
    groups: tuple[Group, ...]
    group: Group
    protocol: Protocol
    mixed: bool
    seed: SeededSource | None

    def __call__(self, batches: Batches) -> Batches:
        source = partition_source(self.seed).part(self.groups.index(self.group))
        names = Numbering.of_found(self.groups, self.reader.question)
        rows = self.reader.encoded_rows(batches, names)
        size = min(_ROWS, self.protocol.randomizer.people_at_once)
        for _, number, codes in pieces(rows, {self.group: self.protocol}, names, quietly):
            bits, values = source.part(number), joined(codes)
            for start in range(0, len(values), size):
                sent = self.protocol.randomizer.send(values[start : start + size], bits)
                admitted = self.protocol.shuffler.admitted(sent)
                payload = self.protocol.alphabet.messages(admitted.payload)
                for at in range(0, len(payload), _ROWS):
                    yield message_batch(payload[at : at + _ROWS], bits, mixed=self.mixed)


@dataclass(frozen=True)
class NoiseStep:
    """Draws the shuffler's noise messages for one group. `number` is the number of the group. Each
    row also says whether the noise replaces the messages of all people.
    """

    protocol: Protocol
    users: int
    seed: SeededSource | None
    number: int

    def __call__(self, batches: Batches) -> Batches:
        import pyarrow

        source = noise_source(self.seed, self.number)
        for _ in batches:  # there is exactly one batch
            noise = self.protocol.shuffler.noise(self.users, source)
            batch = message_batch(noise.messages, source, mixed=True)
            alone = pyarrow.array(np.full(len(noise.messages), noise.alone))
            names = [*batch.schema.names, "alone"]
            yield pyarrow.RecordBatch.from_arrays([*batch.columns, alone], names)


def message_batch(payload: NDArray[Any], source: Source, *, mixed: bool) -> "pyarrow.RecordBatch":
    """A batch with one row for each message. If `mixed` is true, each row also has random keys."""
    import pyarrow

    arrays = [message_column(payload)]
    if mixed:
        keys = source.integers(2 * len(payload), np.uint64).view(np.int64).reshape(2, -1)
        arrays += [pyarrow.array(key) for key in keys]
    return pyarrow.RecordBatch.from_arrays(arrays, ["message", "key", "tie"][: len(arrays)])


@dataclass(frozen=True)
class CountStep:
    """Counts stored messages for a tally. The field `users` of the result is the number of
    messages, since the number of people is unknown here.
    """

    protocol: Protocol

    def __call__(self, batches: Batches) -> Batches:
        cutter, sent = Cutter(self.protocol.randomizer.people_at_once), 0
        total: Tally | None = None
        try:
            for payload in self._pieces(batches, cutter):
                sent += len(payload)
                counts = self.protocol.estimator.count(self.protocol.alphabet.messages(payload))
                tally = tally_of(self.protocol, counts, 1, secure=True)
                total = tally if total is None else total + tally
        except HeadcountError as error:
            yield result_batch(
                None, None, None, RemoteRefusal(error.message, error.hint, None).to_json()
            )
            return
        if total is not None:
            yield count_result(None, sent, total.counts)

    def _pieces(self, batches: Batches, cutter: Cutter) -> Iterator[NDArray[Any]]:
        for batch in batches:
            payload = payload_of(batch.column(0), self.protocol.alphabet)
            yield from (joined(piece) for _, piece in cutter.add(payload))
        yield from (joined(piece) for _, piece in cutter.rest())
