"""Records on the driver's disk, of which only places and sizes are in memory (I9).

In: a file to which keys and values were appended, and their sizes. Out: how many and how large they are for each
partition and frame id; and the records of a topic in chunks, as bytes and places in them.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from walbridge.schemas.avro.framing import TOMBSTONE, frame_id_if_known, prefix_of
from walbridge.schemas.control.cut import PartitionId
from walbridge.spark_consumer.kafka.few_records import LeftToSpark, Record, sized_here
from walbridge.spark_consumer.kafka.many.plans_on_driver import PlansOnDriver
from walbridge.spark_consumer.kafka.measures import Measure
from walbridge.spark_consumer.kafka.ranges import SIZED_RECORD
from walbridge.spark_consumer.kafka.slices import Volume

Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[Any]
"""Of uint64: to numpy's own types, which are not right there, ``words & 1`` would be signed."""

CHUNK_ROWS = 16_384
"""So few that numpy's arrays of one number a record stay in a core's cache."""
CHUNK_BYTES = 4 * 2**20
PADDING = 64
"""Zeros behind the bytes of a chunk: whoever reads words may read beyond the last record."""
WORD = 8
"""Bytes that are read at once."""
_HEAD = 64
"""Enough bytes of a value to tell its framing."""
_ABSENT = -1


def words_of(data: npt.NDArray[np.uint8]) -> Words:
    """By place: the eight bytes from there on, the first one lowest. Words overlap, and nothing is copied."""
    return np.ndarray((max(len(data) - WORD + 1, 0),), np.uint64, data, strides=(1,))


@dataclass(frozen=True)
class Chunk:
    """Some records of one partition, by offset. Places are those in ``data``."""

    topic: str
    partition: int
    first: int
    """The number of its first record among those of the topic."""
    data: npt.NDArray[np.uint8]
    offsets: Numbers
    starts: Numbers
    key_sizes: Numbers
    value_sizes: Numbers

    @cached_property
    def words(self) -> Words:
        """As ``words_of``."""
        return words_of(self.data)

    @cached_property
    def key_ends(self) -> Numbers:
        """Where each key ends, and the value begins."""
        return self.starts + np.maximum(self.key_sizes, 0)

    @property
    def ends(self) -> Numbers:
        """Where each value ends."""
        return self.key_ends + np.maximum(self.value_sizes, 0)

    def in_frame(self, frame_id: str) -> npt.NDArray[np.bool_]:
        """Which of the values have this frame id."""
        prefix = prefix_of(frame_id)
        return (self.value_sizes > len(prefix)) & self._begin_with(prefix)

    def _begin_with(self, prefix: bytes) -> npt.NDArray[np.bool_]:
        same = np.ones(len(self.starts), np.bool_)
        for at in range(0, len(prefix), WORD):
            piece = prefix[at : at + WORD]
            wanted, mask = (np.uint64(int.from_bytes(each, "little")) for each in (piece, b"\xff" * len(piece)))
            same &= self.words[self.key_ends + at] & mask == wanted
        return same

    def frames(self) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
        """Each frame id, and which records have it.

        Raises:
            LeftToSpark: a record has none.
        """
        left = self.value_sizes != _ABSENT
        if not left.all():
            yield TOMBSTONE, ~left
        while left.any():
            row = int(np.argmax(left))
            frame_id = frame_id_if_known(self._value(row)[:_HEAD])
            found = left & self.in_frame(frame_id) if frame_id else left & False
            if frame_id is None or not found[row]:
                raise LeftToSpark(self.topic)
            yield frame_id, found
            left &= ~found

    def _value(self, row: int) -> bytes:
        return self.data[self.key_ends[row] : self.ends[row]].tobytes()

    def records(self) -> list[Record]:
        """The records one by one."""
        content = self.data.tobytes()
        places = zip(*(each.tolist() for each in (self.starts, self.key_ends, self.ends)), strict=True)
        sizes = zip(*(each.tolist() for each in (self.offsets, self.key_sizes, self.value_sizes)), strict=True)
        return [
            (
                self.topic,
                self.partition,
                offset,
                None if key_size == _ABSENT else content[start:key_end],
                None if value_size == _ABSENT else content[key_end:end],
            )
            for (start, key_end, end), (offset, key_size, value_size) in zip(places, sizes, strict=True)
        ]


@dataclass(frozen=True)
class Part:
    """Records of one partition, in the order of their offsets; ``starts``: of their keys, in the file."""

    partition_id: PartitionId
    offsets: Numbers
    starts: Numbers
    key_sizes: Numbers
    value_sizes: Numbers


def ignored() -> None:
    """A sign of progress that nobody waits for."""


@dataclass
class SpooledRecords:
    """The records of a plan. The file goes with them. ``on_step`` is called for each chunk, as a sign of progress."""

    file: IO[bytes]
    plans: PlansOnDriver = field(default_factory=PlansOnDriver)
    on_step: Callable[[], None] = ignored
    parts: list[Part] = field(default_factory=list)
    measures: Sequence[Measure] = ()
    """Their number and bytes, by partition and frame id; several of one place."""

    def chunks(self, topic: str | None = None) -> Iterator[Chunk]:
        """The records, or those of one topic: partition by partition, those of each by offset."""
        first = 0
        for part in self.parts:
            if topic is None or part.partition_id[0] == topic:
                for begin, end in _chunk_bounds(part):
                    self.on_step()
                    yield self._chunk(part, begin, end, first + begin)
                first += len(part.offsets)

    def _chunk(self, part: Part, begin: int, end: int, first: int) -> Chunk:
        rows = slice(begin, end)
        starts, key_sizes, value_sizes = part.starts[rows], part.key_sizes[rows], part.value_sizes[rows]
        at = int(starts[0])
        size = int(starts[-1]) + max(int(key_sizes[-1]), 0) + max(int(value_sizes[-1]), 0) - at
        data = np.zeros((size + PADDING) // 8 * 8, np.uint8)
        _read_exactly(self.file, at, data[:size])
        return Chunk(*part.partition_id, first, data, part.offsets[rows], starts - at, key_sizes, value_sizes)

    def measure(self) -> None:
        """Find ``measures``.

        Raises:
            LeftToSpark: as of ``Chunk.frames``.
        """
        self.measures = [
            Measure(
                chunk.topic,
                chunk.partition,
                frame_id,
                Volume(int(rows.sum()), int(np.maximum(chunk.value_sizes[rows], 0).sum())),
                int(chunk.offsets[rows][0]),
                int(chunk.offsets[rows][-1]),
            )
            for chunk in self.chunks()
            for frame_id, rows in chunk.frames()
        ]

    def records(self, topics: Iterable[str]) -> pa.Table:
        """The records of some topics, as ``SIZED_RECORD``."""
        found = [sized_here(chunk.records()) for topic in topics for chunk in self.chunks(topic)]
        return pa.concat_tables([SIZED_RECORD.empty_table(), *found])

    def close(self) -> None:
        """Give the disk back."""
        self.file.close()


def _chunk_bounds(part: Part) -> Iterator[tuple[int, int]]:
    begin, count = 0, len(part.offsets)
    while begin < count:
        # The last record begins within the limit; records of more than a few hundred KiB are not here.
        within = int(np.searchsorted(part.starts, part.starts[begin] + CHUNK_BYTES))
        end = min(begin + CHUNK_ROWS, max(within, begin + 1), count)
        yield begin, end
        begin = end


def _read_exactly(file: IO[bytes], at: int, into: npt.NDArray[np.uint8]) -> None:
    view = memoryview(into.data)
    while len(view):
        count = os.preadv(file.fileno(), [view], at)
        if count == 0:
            raise EOFError("the file of records is shorter than what was written to it")
        view, at = view[count:], at + count
