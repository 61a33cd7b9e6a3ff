"""Few records, fetched by one consumer of the driver's JVM instead of a Spark job.

In: offset ranges of partitions, a consumer. Out: exactly the records in them, as Arrow. Spark reads each
partition with a consumer of its own, some 25 ms each where it has none of them yet, and takes a quarter of a second
for a job. The heap holds no more than a fetch of ``FETCH_BYTES`` unpacks to, and the bytes of one poll (I9).

A poll comes by ten calls into the JVM however many records it has; a call for each record and part would take longer
than Kafka does. So the JVM goes through the records itself: handles of its own methods, put together once, append what
each record says of itself to a text, and keys and values to an array of bytes; the sizes in the text tell them apart.
Both pass through a file: an answer of py4j that is longer than its buffer waits for an acknowledgement that TCP delays
by 40 ms.
"""

import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

import pyarrow as pa

from walbridge.schemas.avro.framing import frame_id_if_known
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import RetryableError
from walbridge.spark_consumer.kafka.kafka_client import java_list
from walbridge.spark_consumer.kafka.ranges import RECORD, SIZED_RECORD, Range

POLL_MS = 200
PATIENCE_S = 5.0
"""How long all partitions together may bring nothing."""

Record = tuple[str, int, int, bytes | None, bytes | None]
"""The columns of ``RECORD``."""
POLL_BYTES_MAX = 2 * 2**20
"""Of keys and values in one poll, which the heap holds twice more meanwhile."""
_RECORD = "org.apache.kafka.clients.consumer.ConsumerRecord"
_TOLD = re.compile(
    rb"ConsumerRecord\(topic = ([A-Za-z0-9._-]+), partition = (\d+), leaderEpoch = \w+, offset = (\d+), "
    rb"\w+ = -?\d+, serialized key size = (-?\d+), serialized value size = (-?\d+),"
)
"""Place, and bytes of the key and of the value (-1: none), of a record that Java's client tells as text."""


class FewRecords:
    """One fetch by a consumer of the JVM, which nobody else uses meanwhile."""

    def __init__(
        self, jvm: Any, consumer: Any, partitions: Mapping[PartitionId, Any], listed: Any, polled: "PolledRecords"
    ) -> None:
        """``partitions``: Java's TopicPartition of each place that is read; ``listed``: all of them, as Java's list."""
        self._jvm, self._consumer, self._partitions, self._polled = jvm, consumer, partitions, polled
        self._listed = listed
        self._patience = jvm.java.time.Duration.ofMillis(POLL_MS)

    def fetch(self, ranges: Mapping[PartitionId, Range], value_bytes_max: int) -> pa.Table | None:
        """All records of these ranges as ``SIZED_RECORD``; None where a value is larger: Spark then reads all.

        Raises:
            RetryableError: they do not come.
            Py4JJavaError: what the client says.
        """
        try:
            return _sized(list(self._records(ranges, value_bytes_max)))
        except NotThisWay:
            return None
        finally:
            self._consumer.unsubscribe()

    def _records(self, ranges: Mapping[PartitionId, Range], value_bytes_max: int) -> Iterator[Record]:
        left = dict(ranges)
        self._consumer.assign(self._listed)
        for place, (start, _) in left.items():
            self._consumer.seek(self._partitions[place], start)
        due = time.monotonic() + PATIENCE_S
        while left:
            before = dict(left)
            for record in self._polled.of(self._consumer.poll(self._patience), value_bytes_max):
                if record.place in left and record.offset < left[record.place][1]:
                    yield *record.place, record.offset, record.key, record.value
                    _pass(left, record.place, record.offset + 1)
            if left == before:
                self._look_where_it_is(left)
            if left != before:
                due = time.monotonic() + PATIENCE_S
                if left and (done := before.keys() - left.keys()):
                    self._consumer.pause(self._places(done))
            elif time.monotonic() > due:
                (topic, partition), (start, _) = next(iter(left.items()))
                raise RetryableError(f"Kafka does not send {topic}[{partition}] from offset {start} on")

    def _look_where_it_is(self, left: dict[PartitionId, Range]) -> None:
        """Markers and records of aborted transactions are passed without a record."""
        for place in list(left):
            _pass(left, place, self._consumer.position(self._partitions[place]))

    def _places(self, places: Iterable[PartitionId]) -> Any:
        return java_list(self._jvm, [self._partitions[place] for place in places])


def _pass(left: dict[PartitionId, Range], place: PartitionId, offset: int) -> None:
    start, end = left.pop(place)
    if offset < end:
        left[place] = max(start, offset), end


def _sized(records: list[Record]) -> pa.Table:
    """The records with what ``SIZED_RECORD`` says of them."""
    columns = dict(zip(RECORD.names, zip(*records, strict=True), strict=True)) if records else {}
    values = columns.get("value", ())
    return pa.Table.from_pydict(
        {name: columns.get(name, ()) for name in RECORD.names}
        | {
            "frame_id": [frame_id_if_known(value) for value in values],
            "size": [len(value or b"") for value in values],
            "large": [None] * len(values),
            "is_left_out": [False] * len(values),
        },
        SIZED_RECORD,
    )


class Polled(NamedTuple):
    """One record."""

    place: PartitionId
    offset: int
    key: bytes | None
    value: bytes | None


class NotThisWay(Exception):
    """A value is too large for it, or the client tells its records in other words."""


class PolledRecords:
    """Of the consumers of one JVM; used by one thread at a time."""

    def __init__(self, jvm: Any, consumer: Any) -> None:
        self._jvm = jvm
        self._text = jvm.java.io.ByteArrayOutputStream()
        self._bytes = jvm.java.io.ByteArrayOutputStream()
        handles = _Handles(jvm, consumer.getClass().getClassLoader())
        self._tell = handles.telling(jvm.java.io.PrintStream(self._text, False, "UTF-8"))
        self._add_key, self._add_value = (handles.appending(part, self._bytes) for part in ("key", "value"))

    def of(self, polled: Any, value_bytes_max: int) -> list[Polled]:
        """The records of a poll, those of a partition in their order.

        Raises:
            NotThisWay: Spark is to read them.
        """
        if polled.isEmpty():
            return []
        self._text.reset()
        self._bytes.reset()
        polled.forEach(self._tell)
        with tempfile.NamedTemporaryFile(prefix="walbridge-records-") as file:
            out = self._jvm.java.io.FileOutputStream(file.name)
            try:
                self._text.writeTo(out)
                told = [_Told(*each) for each in _TOLD.findall(_rest(file))]
                if len(told) != polled.count():
                    raise NotThisWay
                sizes = [each.key_size + each.value_size for each in told]
                if max(each.value_size for each in told) > value_bytes_max or sum(sizes) > POLL_BYTES_MAX:
                    raise NotThisWay
                polled.forEach(self._add_key)
                polled.forEach(self._add_value)
                self._bytes.writeTo(out)
            finally:
                out.close()
            return _cut(told, _rest(file))


class _Told:
    """What a record says of itself; a size of -1 stands for no bytes at all."""

    def __init__(self, topic: bytes, partition: bytes, offset: bytes, key_size: bytes, value_size: bytes) -> None:
        self.place = topic.decode(), int(partition)
        self.offset, self.key, self.value = int(offset), int(key_size), int(value_size)
        self.key_size, self.value_size = max(self.key, 0), max(self.value, 0)


def _rest(file: IO[bytes]) -> bytes:
    """What was written since the last call."""
    size = os.fstat(file.fileno()).st_size
    return file.read(size - file.tell())


def _cut(told: Sequence[_Told], content: bytes) -> list[Polled]:
    """All keys come first, then all values."""
    key_at, value_at = 0, sum(each.key_size for each in told)
    if len(content) != value_at + sum(each.value_size for each in told):
        raise NotThisWay
    found = []
    for each in told:
        key = None if each.key < 0 else content[key_at : key_at + each.key_size]
        value = None if each.value < 0 else content[value_at : value_at + each.value_size]
        key_at, value_at = key_at + each.key_size, value_at + each.value_size
        found.append(Polled(each.place, each.offset, key, value))
    return found


class _Handles:
    """Java's own methods as ``java.util.function.Consumer`` of records."""

    def __init__(self, jvm: Any, loader: Any) -> None:
        self._jvm, invoke = jvm, jvm.java.lang.invoke
        self._all, self._type, self._proxies = (
            invoke.MethodHandles,
            invoke.MethodType.methodType,
            invoke.MethodHandleProxies,
        )
        self._lookup = self._all.publicLookup()
        self._class = jvm.java.lang.Class.forName
        self._record = self._class(_RECORD, True, loader)
        self._object, self._of_bytes = self._class("java.lang.Object"), self._class("[B")
        self._void, self._boolean = jvm.java.lang.Void.TYPE, jvm.java.lang.Boolean.TYPE

    def telling(self, stream: Any) -> Any:
        """Prints what a record says of itself."""
        type_of = self._type(self._void, self._object)
        return self._consumer(
            self._lookup.findVirtual(self._class("java.io.PrintStream"), "print", type_of).bindTo(stream)
        )

    def appending(self, part: str, stream: Any) -> Any:
        """Appends a record's key or value, if it has one, to a ByteArrayOutputStream."""
        read = self._lookup.findVirtual(self._record, part, self._type(self._object))
        stream_class = self._class("java.io.ByteArrayOutputStream")
        write = self._lookup.findVirtual(stream_class, "writeBytes", self._type(self._void, self._of_bytes))
        write = write.bindTo(stream).asType(self._type(self._void, self._object))
        is_null = self._lookup.findStatic(
            self._class("java.util.Objects"), "isNull", self._type(self._boolean, self._object)
        )
        nothing = self._all.empty(self._type(self._void, self._record))
        return self._consumer(self._all.guardWithTest(self._after(read, is_null), nothing, self._after(read, write)))

    def _after(self, first: Any, second: Any) -> Any:
        """``second`` of what ``first`` gives."""
        return self._all.collectArguments(second, 0, first)

    def _consumer(self, handle: Any) -> Any:
        any_record = handle.asType(self._type(self._void, self._object))
        return self._proxies.asInterfaceInstance(self._class("java.util.function.Consumer"), any_record)
