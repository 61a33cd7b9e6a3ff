"""What the control topics say now, for verbs that only look.

In: settings and the topics that exist. Out: the newest progress, the newest cut, the relations.
Progress and cuts are read from their ends, since they grow with every batch; no transactional
instance is opened, which would fence the running producer.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from confluent_kafka import Message

from walbridge.producer.kafka.control_topics import read_metadata, slot_progress
from walbridge.producer.kafka.partition_log import PartitionLog
from walbridge.schemas.control.cut import Cut, changes_tables, decode_cut
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.errors import ProtocolError, unreadable_record
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic, metadata_topic, progress_topic

UNCHANGED_CUTS_MAX = 64
"""How far back a change is looked for, in cuts: a lake that follows is nearer than that."""


@dataclass(frozen=True, slots=True)
class WrittenCut:
    """A cut and when its record was written. ``unchanged_since``: from this LSN up to its end no table changed."""

    cut: Cut
    written_at_ms: int
    unchanged_since: Lsn


def newest_progress(settings: Settings, topics: Container[str], *, all_tables: bool = True) -> Progress | None:
    """The newest progress of our slot; None where it was never written.

    Args:
        all_tables: refuse one of which records of tables are missing.

    Raises:
        RetryableError: no broker answers.
        OperatorError: a record of newer code.
    """
    topic = progress_topic(settings.name)
    if topic not in topics:
        return None
    with PartitionLog(settings, topic, 0) as log:
        return slot_progress(log, settings, all_tables=all_tables)


@dataclass(frozen=True, slots=True)
class CutsKept:
    """What the cuts topic has from an offset on: its bounds, and the first cut that is still there."""

    start: int
    end: int
    first: Cut | None


def cuts_kept(settings: Settings, topics: Container[str], offset: int) -> CutsKept:
    """``offset``: where a reader wants to go on. Raises as ``newest_progress``."""
    topic = cuts_topic(settings.name)
    if topic not in topics:
        return CutsKept(0, 0, None)
    with PartitionLog(settings, topic, 0) as log:
        start, end = log.bounds()
        message = next(log.read(max(offset, start)), None) if offset < end else None
    return CutsKept(start, end, None if message is None else _decoded_cut(topic, message))


def cuts_from(settings: Settings, topics: Container[str], offset: int) -> Iterator[Cut]:
    """Those that the cuts topic has from an offset on, in their order. Raises as ``newest_progress``."""
    topic = cuts_topic(settings.name)
    if topic not in topics:
        return
    with PartitionLog(settings, topic, 0) as log:
        start, end = log.bounds()
        if offset < end:
            for message in log.read(max(offset, start), end):
                yield _decoded_cut(topic, message)


def _decoded_cut(topic: str, message: Message) -> Cut:
    try:
        return decode_cut(message.value() or b"")
    except ProtocolError as error:
        raise unreadable_record(topic, error, message.offset()) from None


def newest_cut(settings: Settings, topics: Container[str]) -> WrittenCut | None:
    """The newest cut; None where there is none. Raises as ``newest_progress``."""
    topic = cuts_topic(settings.name)
    if topic not in topics:
        return None

    newest: WrittenCut | None = None
    with PartitionLog(settings, topic, 0) as log:
        for message in islice(log.backwards(), UNCHANGED_CUTS_MAX):
            found = _decoded_cut(topic, message)
            if newest is None:
                newest = WrittenCut(found, message.timestamp()[1], Lsn(found.end_lsn))
            if changes_tables(found):
                break
            newest = replace(newest, unchanged_since=Lsn(found.previous_end_lsn))
    return newest


def relations(settings: Settings, topics: Container[str]) -> list[RelationRecord]:
    """Every Relation record, oldest first. Raises as ``newest_progress``."""
    if metadata_topic(settings.name) not in topics:  # a reader would wait for it
        return []
    return [record for record in read_metadata(settings)[0] if isinstance(record, RelationRecord)]
