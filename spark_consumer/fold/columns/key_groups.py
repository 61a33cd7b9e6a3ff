"""Which records have the same key, told by the keys' bytes.

In: the chunks of a topic's records. Out: by a record's number the first and the last record with its key.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from walbridge.spark_consumer.fold.columns.avro_bytes import NotPlain
from walbridge.spark_consumer.fold.columns.spans import span_array
from walbridge.spark_consumer.kafka.many.spooled_records import Chunk

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NO_KEY = -1
KEY_BYTES_MAX = 256
"""The keys of a plan are in memory at once; longer ones are not grouped here (I9)."""


@dataclass(frozen=True)
class KeyGroups:
    """Of each record the number of the first and of the last one with its key."""

    first: Numbers
    """``NO_KEY`` of a record without a key."""
    last: Numbers

    @property
    def are_single(self) -> bool:
        """Whether no key comes twice."""
        return np.array_equal(self.first, self.last)

    @classmethod
    def of(cls, chunks: Iterable[Chunk], frame_id: str, only: Flags | None = None) -> "KeyGroups":
        """The groups of the records with this frame id; any other one is a group by itself.

        Args:
            only: by number, which records are in the groups.

        Raises:
            NotPlain: a record has a long key, or records of several partitions have the same.
        """
        keys, rows, keyless, partitions, count = [pa.array([], pa.binary())], [], [], [], 0
        for chunk in chunks:
            end = chunk.first + len(chunk.offsets)
            wanted = chunk.in_frame(frame_id)
            wanted = wanted if only is None else wanted & only[chunk.first : end]
            mine = np.flatnonzero(wanted & (chunk.key_sizes >= 0))
            if chunk.key_sizes[mine].max(initial=0) > KEY_BYTES_MAX:
                raise NotPlain
            keyless.append(chunk.first + np.flatnonzero(chunk.key_sizes < 0))
            keys.append(span_array(chunk.data, chunk.starts[mine], chunk.key_ends[mine]))
            rows.append(chunk.first + mine)
            partitions.append(np.full(len(mine), chunk.partition))
            count = end
        first = np.arange(count)
        last = first.copy()
        if rows:
            _group(pa.concat_arrays(keys), np.concatenate(rows), np.concatenate(partitions), first, last)
            first[np.concatenate(keyless)] = last[np.concatenate(keyless)] = NO_KEY
        return cls(first, last)


def _group(keys: pa.Array, rows: Numbers, partitions: Numbers, first: Numbers, last: Numbers) -> None:
    encoded = keys.dictionary_encode()
    group = encoded.indices.to_numpy(zero_copy_only=False)
    if len(encoded.dictionary) == len(keys):
        return
    first_of, last_of, partition_of = (np.empty(len(encoded.dictionary), np.int64) for _ in range(3))
    # Of several values for one place numpy keeps the last.
    last_of[group], partition_of[group], first_of[group[::-1]] = rows, partitions, rows[::-1]
    if not np.array_equal(partition_of[group], partitions):
        raise NotPlain
    first[rows], last[rows] = first_of[group], last_of[group]
