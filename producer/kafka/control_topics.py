"""Metadata and progress: written so that they hold before what depends on them, and read back.

Metadata goes out through an idempotent producer of its own, acknowledged before the first event
that names it: markers of one transaction become visible on its partitions at different moments,
so the same transaction would not do (I2).
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from walbridge.producer.errors.topics import tail_lost
from walbridge.producer.kafka.client_config import client_config, refusing_properties
from walbridge.producer.kafka.deliveries import NO_OFFSET
from walbridge.producer.kafka.instance import SERVE_S, Instance
from walbridge.producer.kafka.kafka_transaction import BatchAborted
from walbridge.producer.kafka.partition_log import PartitionLog
from walbridge.producer.kafka.topic_specs import message_bytes_max
from walbridge.schemas.avro.framing import is_control_record
from walbridge.schemas.control.cut import PartitionId, decode_cut
from walbridge.schemas.control.metadata_record import (
    SYSTEM_HEADER,
    RelationRecord,
    TypeRecord,
    decode_metadata,
    encode_metadata,
)
from walbridge.schemas.control.progress_record import (
    Progress,
    TableRecordsMissing,
    decode_progress,
    progress_key,
    read_back,
)
from walbridge.schemas.errors import COPY_ALL_FIRST, KafkaAway, OperatorError, ProtocolError, unreadable_record
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic, metadata_topic, progress_topic

_NEWEST_RECORDS = 8
"""How many are read from the end: one alone may be ours although another slot writes there too."""

_NEWEST_CUTS, _NEWEST_CUT_BYTES = 500, 200_000
"""What a broker has not put on its disk yet is some seconds old. Those of hundreds of tables take a while to decode."""

_WRITTEN_AT_ONCE = 200
"""So many records wait for their acknowledgement together: a record of a wide table has hundreds of kilobytes."""


class MetadataWriter:
    """Writes metadata records and waits for their acknowledgement.

    Args:
        system_id: of the cluster that they describe.
    """

    def __init__(
        self, settings: Settings, on_wait: Callable[[], None], end_offset: int, system_id: str | None = None
    ) -> None:
        self._settings = settings
        self._headers = [] if system_id is None else [(SYSTEM_HEADER, system_id.encode())]
        self._topic = metadata_topic(settings.name)
        self.on_wait = on_wait
        self.end_offset = end_offset
        """Offset after the last record, for cuts."""
        self._read_offset = end_offset
        """What lies before it is known, whoever wrote it."""
        self._failure: str | None = None
        config: dict[str, Any] = {
            "acks": "all",
            "enable.idempotence": True,
            "max.in.flight.requests.per.connection": 1,  # a later batch never speaks for an earlier one: deliveries.py
            "linger.ms": 0,
            "message.max.bytes": message_bytes_max(settings),
            "log_level": 0,
            "error_cb": lambda error: None,
        }
        self._config = config | client_config(settings)
        self._instance: Instance | None = None

    def write(self, records: list[RelationRecord | TypeRecord]) -> None:
        """Acknowledged when it returns; waits while the broker is away (``on_wait`` may raise).

        Raises:
            RetryableError: a record was not acknowledged, or the client is dead and the next one begins anew.
        """
        self._failure = None
        if self._instance is None:
            with refusing_properties(self._settings):
                self._instance = Instance(Producer(self._config))
        try:
            self._send(self._instance, records)
        except KafkaException as error:
            if not error.args[0].fatal() and error.args[0].code() != KafkaError._FATAL:
                raise KafkaAway(f"metadata was not written: {error.args[0].str()}") from None
            self._instance, self._failure = None, error.args[0].str()
        if self._failure is not None:
            raise KafkaAway(f"metadata was not acknowledged: {self._failure}")

    def written_since(self) -> list[RelationRecord | TypeRecord]:
        """Records that came since the last look, our own among them. Raises as ``read_metadata``."""
        records, self._read_offset = read_metadata(self._settings, self._read_offset)
        self.end_offset = max(self.end_offset, self._read_offset)
        return records

    def _send(self, instance: Instance, records: list[RelationRecord | TypeRecord]) -> None:
        for first in range(0, len(records), _WRITTEN_AT_ONCE):
            for record in records[first : first + _WRITTEN_AT_ONCE]:
                value = encode_metadata(record)
                instance.produce(
                    self._topic, value, record.key, partition=0, headers=self._headers, on_delivery=self._delivered
                )
            while instance.flush(SERVE_S):
                self.on_wait()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is not None:
            self._failure = error.str()
        elif offset is None:
            self._failure = NO_OFFSET
        else:
            self.end_offset = max(self.end_offset, offset + 1)


def read_metadata(
    settings: Settings, start: int = 0, stop: int | None = None
) -> tuple[list[RelationRecord | TypeRecord], int]:
    """Every metadata record from ``start`` on, up to ``stop``, and the offset after the last.

    Raises:
        OperatorError: a record that this code cannot read.
    """
    records, end_offset = [], start
    with PartitionLog(settings, metadata_topic(settings.name), 0) as log:
        for message in log.read(start, stop):
            value = message.value() or b""
            if is_control_record(value):
                try:
                    records.append(decode_metadata(value))
                except ProtocolError as error:
                    raise unreadable_record(metadata_topic(settings.name), error, message.offset()) from None
            end_offset = (message.offset() or 0) + 1
    return records, end_offset


def read_progress(settings: Settings) -> Progress | None:
    """The newest progress of our slot; None where nothing was ever written.

    Read after ``init_transactions``: before it, an older instance's commit may still land. It is read from the end,
    no further back than the records of all its tables go: every batch leaves a record, and the topic may not be
    compacted yet.

    Raises:
        OperatorError: a record that this code cannot read, or one of another slot: the cuts of two
            slots in one topic would be no chain.
    """
    topic = progress_topic(settings.name)
    with PartitionLog(settings, topic, 0) as log:
        # The slot's record is the last of its transaction: what another slot wrote lately shows by that alone.
        last = [each for each in log.last(_NEWEST_RECORDS) if is_control_record(each.value())]
        newest = {key: message for message in last if b"/" not in (key := message.key() or b"")}
        newest.pop(progress_key(settings.postgres.slot), None)
        if newest:
            raise _taken(settings, next(iter(newest.values())))
        return slot_progress(log, settings)


def refuse_overtaken(settings: Settings, own: Progress) -> None:
    """A new instance fences the one before, whosever it was: what that one published is in Kafka already,
    and rows that follow our own progress would be there twice (I4). From here on nobody else can add to it.

    Raises:
        BatchAborted: the newest progress is not ours.
    """
    found = read_progress(settings)
    if found is None or (found.epoch, found.cut_id) != (own.epoch, own.cut_id):
        raise BatchAborted("another producer published for this pipeline meanwhile")


def newest_ends(settings: Settings) -> dict[PartitionId, int]:
    """By partition, where the last records end that one of the newest cuts names.

    Raises:
        RetryableError: no broker answers.
    """
    ends: dict[PartitionId, int] = {}
    size = 0
    with PartitionLog(settings, cuts_topic(settings.name), 0) as log:
        for message in islice(log.backwards(), _NEWEST_CUTS):
            value = message.value() or b""
            with suppress(ProtocolError):  # a cut of newer code is told by the job, which stops there
                for part in decode_cut(value).partitions:
                    ends.setdefault((part.topic, part.partition), part.end_offset)
            size += len(value)
            if size > _NEWEST_CUT_BYTES:
                break
    return ends


def refuse_lost_tail(settings: Settings, progress: Progress) -> None:
    """Compare progress with the newest cut of its epoch: both are written in one Kafka transaction. To be called once
    all that is in both topics is decided.

    Raises:
        StreamLost: one lacks what the other has, so a broker lost it, as in a power cut. Cuts would be no chain, or
            changes would come twice.
        RetryableError: no broker answers.
    """
    with PartitionLog(settings, cuts_topic(settings.name), 0) as log:
        for message in islice(log.backwards(), _NEWEST_RECORDS):
            with suppress(ProtocolError):  # as above
                cut = decode_cut(message.value() or b"")
                if cut.epoch != progress.epoch:
                    continue
                if cut.cut_id != progress.cut_id:
                    raise tail_lost(settings.name, progress.cut_id, cut.cut_id)
                return


def slot_progress(log: PartitionLog, settings: Settings, *, all_tables: bool = True) -> Progress | None:
    """The newest progress of our slot in the progress topic, whoever else writes there.

    Args:
        all_tables: refuse one of which records of tables are missing.

    Raises:
        OperatorError: as ``read_progress``.
    """
    last: list[Message] = []

    def newest_first() -> Iterator[tuple[bytes | None, bytes | None]]:
        for message in log.backwards():
            last[:] = [message]
            yield message.key(), message.value()

    try:
        return read_back(settings.postgres.slot, newest_first())
    except TableRecordsMissing as error:
        if not all_tables:
            return error.progress
        raise OperatorError(
            f"{progress_topic(settings.name)} was cut: {error}",
            remedy=f"its cleanup.policy must be compact; delete that topic, then {COPY_ALL_FIRST}",
        ) from None
    except ProtocolError as error:
        offset = last[0].offset() if last else None
        raise unreadable_record(progress_topic(settings.name), error, offset) from None


def _taken(settings: Settings, message: Message) -> OperatorError:
    topic = progress_topic(settings.name)
    try:
        other = decode_progress(message.value() or b"")
    except ProtocolError as error:
        return unreadable_record(topic, error, message.offset())
    return OperatorError(
        f"the name {settings.name} is taken: {topic} is of slot {other.slot} in database {other.database}",
        remedy="give this pipeline another name and [lake] path; or, if it is the same one, set [postgres] slot = "
        f'"{other.slot}"',
    )
