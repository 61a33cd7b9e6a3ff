"""The cuts topic: what to apply next, and a stream that says when.

In: offsets of ``<p>.cuts``. Out: (offset, cut) pairs. The Spark stream is a trigger only: the lake says from which
offset to read on, and the log says up to which. So a lost, damaged, rewound or advanced checkpoint changes nothing
(I5). Cuts are read in slices of bounded size (I9), by the job's own consumer as long as none is large: the first query
of a job costs Spark seconds, and the backlog waits.
"""

import json
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import structlog
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from walbridge.schemas.avro.framing import is_control_record
from walbridge.schemas.control.cut import Cut, Epoch, decode_cut
from walbridge.schemas.errors import OperatorError, ProtocolError, unreadable_record
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic
from walbridge.spark_consumer.errors import classifying_errors, may_be_of_checkpoint
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.ranges import Range

log = structlog.get_logger()

Cuts = list[tuple[int, Cut]]
CutsFrom = Callable[[int], Iterator[Cuts]]
"""The cuts from an offset on, in slices."""
OFFSETS_PER_READ = 2_048
"""About half of these offsets are cuts, since transaction markers take offsets too."""
BYTES_PER_READ = 32 * 2**20
LARGE_OFFSETS_PER_READ = 64
"""Cuts may be as large as 500 kB: fewer large ones are held at a time (I9)."""
FEW_BYTES = 32 * 2**10
"""If a cut has more bytes, or than its share of ``BYTES_PER_READ``, Spark reads the slice."""
CHECKPOINT = "_checkpoint"
POLLING_DELAY = "spark.sql.streaming.pollingDelay"
"""How long the stream waits at the end of the topic before it asks Kafka again: by default 10 ms, which cost the job a
quarter of a core while nothing happened, and 150 ms a fifteenth."""
WATCH_S = 0.2
WATCH_ONCE_S = 0.02


class CutsSource:
    """Reads cuts of one pipeline in order."""

    def __init__(self, spark: SparkSession, log: KafkaLog, settings: Settings) -> None:
        self._spark = spark
        self._log = log
        self._topic = cuts_topic(settings.name)
        self._checkpoint = f"{settings.lake.path.rstrip('/')}/{CHECKPOINT}"
        self._interval_ms = settings.lake.trigger_interval_ms
        self._polling_delay_ms = polling_delay_ms(settings.lake.publish_interval_ms)

    def forget_checkpoint(self) -> bool:
        """Delete the stream's checkpoint, which is of another topic or damaged; nothing depends on it. Whether it is
        gone: on an object store it stays, and Spark's error says there what to delete."""
        if "://" in self._checkpoint:
            return False
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        return True

    def bounds(self) -> Range:
        """Where the topic begins and ends now.

        Raises:
            OperatorError: there is no such topic.
            RetryableError: the broker is away.
        """
        partition_id = self._topic, 0
        if self._log.partition_count(self._topic) == 0:
            raise OperatorError(
                f"topic {self._topic} does not exist",
                remedy="start the producer first: walbridge init, then walbridge produce; or check name and "
                "[kafka] bootstrap_servers",
            )
        return self._log.starts([partition_id])[partition_id], self._log.ends([partition_id])[partition_id]

    def read(self, start: int, end: int) -> Iterator[Cuts]:
        """The cuts in [start, end), in slices of bounded size.

        If the log begins after ``start``, perhaps only a marker has expired: the chain of cuts tells if one is missing.

        Raises:
            OperatorError: a record that is no cut.
            RetryableError: the broker is away.
        """
        partition_id = self._topic, 0
        start = max(start, self._log.starts([partition_id])[partition_id])
        self._log.wait_visible({partition_id: (start, end)})
        while start < end:
            upto = min(end, start + OFFSETS_PER_READ)
            cuts = self._fetched(start, upto)
            if cuts is None and self._bytes(start, upto) > BYTES_PER_READ:
                upto = min(end, start + LARGE_OFFSETS_PER_READ)
                cuts = self._fetched(start, upto)
            yield self._read(start, upto) if cuts is None else cuts
            start = upto

    def newest_beginning(self, start: int, end: int, applied: Epoch | None) -> int | None:
        """The offset of cut 1 of the newest epoch in [start, end). None if that is the epoch that was ``applied``, or
        its cut 1 is not kept any more.

        Raises:
            As ``read``.
        """
        epoch: Epoch | None = None
        while start < end:
            before = max(start, end - OFFSETS_PER_READ)
            for offset, cut in reversed([pair for part in self.read(before, end) for pair in part]):
                epoch = epoch or cut.epoch
                if epoch == applied or cut.epoch != epoch:
                    return None
                if cut.cut_id == 1:
                    return offset
            end = before
        return None

    def follow(
        self,
        start_offset: int,
        on_cuts: Callable[[CutsFrom], None],
        stop: threading.Event,
        on_idle: Callable[[], None] = lambda: None,
        *,
        once: bool,
        wait_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Call ``on_cuts`` when the topic has grown, until ``stop``; ``once``: until its end as it is now.

        ``start_offset`` counts only where there is no checkpoint yet; one with which the stream cannot go on is
        deleted. ``on_idle`` is called now and then while nothing is to be done, and never beside ``on_cuts``.
        ``wait_s``: how long cuts gather before they are taken; not with ``once``.

        Raises:
            What ``on_cuts`` raised, the same object; RetryableError or OperatorError when the
            stream itself died.
        """

        def run() -> tuple[_Batches, Exception | None]:
            batches = _Batches(
                lambda begins_there: on_cuts(partial(self._of_trigger, begins_there)), (lambda: 0.0) if once else wait_s
            )
            return batches, self._run(start_offset, batches, stop, on_idle, once)

        batches, died = run()
        # One that does not fit may let the first trigger pass, whose end then cannot be noted.
        is_beginning = batches.failure is None and batches.triggers <= 1
        if died is not None and is_beginning and may_be_of_checkpoint(died) and self.forget_checkpoint():
            log.warning("the stream cannot go on with its checkpoint: it begins without", error=type(died).__name__)
            batches, died = run()
        if batches.failure is not None:
            raise batches.failure
        if died is not None:
            with classifying_errors():
                raise died

    def _run(
        self,
        start_offset: int,
        batches: "_Batches",
        stop: threading.Event,
        on_idle: Callable[[], None],
        once: bool,
    ) -> Exception | None:
        """One stream, to its end. The error of which it died, if it did."""
        try:
            query = self._start(start_offset, batches, once)
        except Exception as error:
            return error
        watch_s = WATCH_ONCE_S if once else WATCH_S
        try:
            while query.isActive and not stop.is_set() and not batches.over.wait(watch_s):
                batches.while_idle(on_idle)
        finally:
            # Stopping interrupts a running batch, so it comes after the last one.
            batches.close()
            _stop(query, batches.failure)
        return query.exception()

    def _of_trigger(self, begins_there: bool, start: int) -> Iterator[Cuts]:
        """The cuts from ``start`` on, fetched by the job's own consumer: reading the trigger's records would be a Spark
        job, which takes longer than all else before a small plan. ``begins_there``: the trigger's records begin at
        ``start`` or before, so whether they are visible need not be asked."""
        partition_id = self._topic, 0
        end = self._log.ends([partition_id])[partition_id]
        if not begins_there or end - start > LARGE_OFFSETS_PER_READ:
            yield from self.read(start, end)
        elif start < end:
            cuts = self._fetched(start, end)
            yield self._read(start, end) if cuts is None else cuts

    def _start(self, start_offset: int, batches: "_Batches", once: bool) -> StreamingQuery:
        if self._spark.conf.get(POLLING_DELAY, None) is None:  # [spark.conf] may say another
            self._spark.conf.set(POLLING_DELAY, f"{self._polling_delay_ms}ms")
        stream = (
            self._spark.readStream.format("kafka")
            .options(**self._log.stream_options())
            .option("assign", json.dumps({self._topic: [0]}))
            .option("startingOffsets", json.dumps({self._topic: {"0": start_offset}}))
            .load()
            .writeStream.option("checkpointLocation", self._checkpoint)
            .foreachBatch(batches.receive)
        )
        if once:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=f"{self._interval_ms} milliseconds").start()

    def _bytes(self, start: int, end: int) -> int:
        if end - start <= LARGE_OFFSETS_PER_READ:
            return 0
        sizes = self._log.read({(self._topic, 0): (start, end)}).agg(F.sum(F.length("value")))
        return int(_collected(sizes)[0][0] or 0)

    def _fetched(self, start: int, end: int) -> Cuts | None:
        """The cuts, fetched without Spark; None where one is large."""
        found = self._log.fetch_few({(self._topic, 0): (start, end)}, min(FEW_BYTES, BYTES_PER_READ // (end - start)))
        if found is None:
            return None
        return self._decoded(zip(*(found[name].to_pylist() for name in ("offset", "value")), strict=True))

    def _read(self, start: int, end: int) -> Cuts:
        """The cuts, however large, read by Spark."""
        rows = _collected(self._log.read({(self._topic, 0): (start, end)}).select("offset", "value"))
        return self._decoded((row[0], row[1]) for row in rows)

    def _decoded(self, records: Iterable[tuple[int, bytes | None]]) -> Cuts:
        """Without what another program wrote: the chain of cuts tells if one of ours is missing."""
        try:
            return sorted((at, decode_cut(bytes(value))) for at, value in records if value and is_control_record(value))
        except ProtocolError as error:
            raise unreadable_record(self._topic, error) from error


def polling_delay_ms(publish_interval_ms: int) -> int:
    """A twentieth of the publication interval, as long as that is neither a busy wait nor noticed by a reader."""
    return min(max(publish_interval_ms // 20, 10), 200)


def _stop(query: StreamingQuery, failure: BaseException | None) -> None:
    """Stop the stream. An error of stopping is raised only where no batch failed: that failure comes first."""
    try:
        query.stop()
    except Exception:
        if failure is None:
            raise


def _collected(records: DataFrame) -> list[Row]:
    with classifying_errors():
        return records.collect()


class _Batches:
    """The stream's foreachBatch function. It never raises: a failure is kept for ``follow``, and later batches are
    ignored, which loses nothing since nothing depends on the checkpoint."""

    def __init__(self, act: Callable[[bool], None], wait_s: Callable[[], float]) -> None:
        self._act, self._wait_s = act, wait_s
        self._is_first = True
        self._running = threading.Lock()
        self.triggers = 0
        self.over = threading.Event()
        self.failure: BaseException | None = None

    def receive(self, _records: DataFrame, _batch_id: int) -> None:
        """One trigger. The first begins where the checkpoint says, each later one where the last ended.

        If it has waited for its time, more cuts may have come than its own records.
        """
        self.triggers += 1
        wait_s = self._wait_s()
        self.over.wait(wait_s)
        with self._running:
            if self.over.is_set():
                return
            try:
                self._act(not self._is_first and not wait_s)
                self._is_first = False
            except BaseException as error:
                self.failure = error
                self.over.set()

    def while_idle(self, on_idle: Callable[[], None]) -> None:
        """Call ``on_idle`` unless a batch runs; none begins meanwhile."""
        if self._running.acquire(blocking=False):
            try:
                on_idle()
            finally:
                self._running.release()

    def close(self) -> None:
        """Return when no batch runs; from now on none does anything."""
        self.over.set()
        with self._running:
            pass
