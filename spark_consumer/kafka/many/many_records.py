"""Many records, fetched by one consumer of the driver's JVM to a file.

In: offset ranges of partitions, a consumer. Out: ``SpooledRecords``. The JVM polls and writes by itself, in a loop of
method handles that are made once a fetch: one call from Python brings some ten thousand records. Partitions are read
one after another, so that the heap holds what one reader of Spark's would: one fetch, unpacked (I9).
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import RetryableError
from walbridge.spark_consumer.jvm.record_handles import RecordHandles
from walbridge.spark_consumer.kafka.few_records import PATIENCE_S, POLL_MS, LeftToSpark
from walbridge.spark_consumer.kafka.many.plans_on_driver import PlansOnDriver
from walbridge.spark_consumer.kafka.many.spooled_records import Part, SpooledRecords
from walbridge.spark_consumer.kafka.ranges import NO_GAPS, Gaps, Range, pieces

POLL_ROWS = 5_000
"""Records of one poll; one fetch has about half as many rows of some hundred bytes."""
CONSUMER = {"max.poll.records": str(POLL_ROWS)}
"""Properties of the consumer."""
POLLS_MAX = 16
"""Polls of one call from Python."""
BUFFER_BYTES = 2**18
"""Bytes that the JVM gathers before it writes them."""
_HEADER = np.dtype([("offset", ">i8"), ("key_size", ">i4"), ("value_size", ">i4")])


class ManyRecords:
    """One fetch by a consumer of the JVM, which no other thread uses meanwhile."""

    def __init__(self, jvm: Any, consumer: Any) -> None:
        self._jvm, self._consumer = jvm, consumer

    def fetch(
        self,
        ranges: Mapping[PartitionId, Range],
        value_bytes_max: int,
        plans: PlansOnDriver,
        on_step: Callable[[], None],
        gaps: Gaps = NO_GAPS,
    ) -> SpooledRecords:
        """All records of these ranges but those in gaps. ``on_step`` is called whenever some have come, too.

        Raises:
            LeftToSpark: a value is larger, or has an unknown framing.
            RetryableError: they do not come.
            Py4JJavaError: what the client says.
        """
        content = _File(self._jvm, "walbridge-records-")
        found = SpooledRecords(content.file, plans, on_step)
        try:
            headers = _File(self._jvm, "walbridge-headers-")
            sink = _Sink(self._jvm, self._consumer, headers, content)
            with closing(content.stream), headers.file, closing(headers.stream):
                for partition_id, bounds in ranges.items():
                    for piece in pieces(bounds, gaps.get(partition_id, ())):
                        for part in self._parts(partition_id, piece, sink, value_bytes_max):
                            found.parts.append(part)
                            on_step()
            found.measure()
        except BaseException:
            found.close()
            raise
        return found

    def _parts(self, partition_id: PartitionId, bounds: Range, sink: "_Sink", value_bytes_max: int) -> Iterator[Part]:
        partition = self._jvm.org.apache.kafka.common.TopicPartition(*partition_id)
        at, end = bounds
        self._consumer.assign(self._jvm.java.util.Collections.singletonList(partition))
        self._consumer.seek(partition, at)
        due = time.monotonic() + PATIENCE_S
        while at < end:
            part = sink.poll(partition_id, (end - at) // POLL_ROWS, end)
            if len(part.offsets):
                if part.value_sizes.max() > value_bytes_max:
                    raise LeftToSpark(partition_id[0])
                yield part
            # It passes markers and aborted records without returning a record.
            reached = self._consumer.position(partition)
            if reached > at:
                at, due = reached, time.monotonic() + PATIENCE_S
            elif time.monotonic() > due:
                raise RetryableError(f"Kafka does not send {partition_id[0]}[{partition_id[1]}] from offset {at} on")


class _File:
    """A file that the JVM writes and Python reads. It has no name, so that it is gone with a job that is killed."""

    def __init__(self, jvm: Any, prefix: str) -> None:
        descriptor, name = tempfile.mkstemp(prefix=prefix)
        self.file = os.fdopen(descriptor, "rb")
        try:
            io = jvm.java.io
            self.stream = io.DataOutputStream(io.BufferedOutputStream(io.FileOutputStream(name), BUFFER_BYTES))
        except BaseException:
            self.file.close()
            raise
        finally:
            Path(name).unlink()


class _Sink:
    """Writes what a consumer polls to two files: of each record a header of ``_HEADER``, its key and its value."""

    def __init__(self, jvm: Any, consumer: Any, headers: _File, content: _File) -> None:
        self._headers, self._jvm, self._size = headers.file, jvm, 0
        self._to_headers, self._to_content = headers.stream, content.stream
        handles = RecordHandles(jvm, consumer.getClass().getClassLoader())
        write = handles.in_turn(
            handles.writing("offset", "Long", self._to_headers),
            handles.writing("serializedKeySize", "Int", self._to_headers),
            handles.writing("serializedValueSize", "Int", self._to_headers),
            handles.writing_bytes("key", self._to_content),
            handles.writing_bytes("value", self._to_content),
        )
        self._loop = handles.polling(consumer, jvm.java.time.Duration.ofMillis(POLL_MS), write)

    def poll(self, partition_id: PartitionId, polls: int, end: int) -> Part:
        """What some polls bring of the partition, up to an offset."""
        arguments = self._jvm.java.util.ArrayList()
        arguments.add(min(max(polls, 1), POLLS_MAX))
        self._loop.invokeWithArguments(arguments)
        self._to_headers.flush()
        self._to_content.flush()
        written = os.fstat(self._headers.fileno()).st_size - self._headers.tell()
        headers = np.frombuffer(self._headers.read(written), _HEADER)
        key_sizes, value_sizes = (headers[name].astype(np.int64) for name in ("key_size", "value_size"))
        ends = self._size + np.cumsum(np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0))
        starts = np.concatenate([[self._size], ends[:-1]]).astype(np.int64)
        self._size = int(ends[-1]) if len(ends) else self._size
        wanted = slice(0, int(np.searchsorted(offsets := headers["offset"].astype(np.int64), end)))
        return Part(partition_id, offsets[wanted], starts[wanted], key_sizes[wanted], value_sizes[wanted])
