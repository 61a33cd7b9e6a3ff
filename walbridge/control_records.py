"""The newest records of the control topics, for verbs that only read.

In: settings and the topics that exist. Out: the newest progress, the newest cut, the relations.
Progress and cuts are read from their ends, since they grow with every batch. No transactional
producer is opened: it would fence the running one.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from confluent_kafka import Message

from walbridge.producer.kafka.control_topics import read_metadata, refuse_lost_tail, slot_progress
from walbridge.producer.kafka.partition_log import PartitionLog
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.schemas.avro.framing import is_control_record
from walbridge.schemas.control.cut import Cut, changes_tables, decode_cut
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.errors import ProtocolError, StreamLost, unreadable_record
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import cuts_topic, metadata_topic, progress_topic

UNCHANGED_CUTS_MAX = 64
"""How many cuts back a change is looked for: a lake that keeps up is less far behind."""


@dataclass(frozen=True, slots=True)
class WrittenCut:
    """A cut, and when its record was written. ``unchanged_since``: no table changed between this LSN and its end."""

    cut: Cut
    written_at_ms: int
    unchanged_since: Lsn


def topics_there(settings: Settings) -> Collection[str]:
    """Which of the topics that are read here exist. A broker may have ten thousand others, and some verbs ask again and
    again.

    Raises:
        RetryableError: no broker answers.
    """
    read = progress_topic, cuts_topic, metadata_topic
    return TopicAdmin(settings).partition_counts_of([topic(settings.name) for topic in read])


def newest_progress(settings: Settings, topics: Container[str], *, all_tables: bool = True) -> Progress | None:
    """The newest progress of our slot; None where it was never written.

    Args:
        all_tables: refuse progress whose records of single tables are not all there.

    Raises:
        RetryableError: no broker answers.
        OperatorError: a record was written by newer code.
    """
    topic = progress_topic(settings.name)
    if topic not in topics:
        return None
    with PartitionLog(settings, topic, 0) as log:
        return slot_progress(log, settings, all_tables=all_tables)


def refuse_tail_lost_at_rest(settings: Settings, is_followed: Callable[[], bool]) -> None:
    """Compare progress with the newest cut, as a session does before it writes, where no producer streams. One that
    runs, or ran while both were read, has done so itself, and both topics grow.

    Raises:
        StreamLost: one of them lost its end.
        RetryableError: no broker answers.
    """
    topics = topics_there(settings)
    if is_followed() or (progress := newest_progress(settings, topics)) is None:
        return
    try:
        refuse_lost_tail(settings, progress)
    except StreamLost:
        if newest_progress(settings, topics) == progress and not is_followed():
            raise


@dataclass(frozen=True, slots=True)
class CutsKept:
    """The bounds of the cuts topic, and its first cut from some offset on; None where there is none yet."""

    start: int
    end: int
    first: Cut | None


def cuts_kept(settings: Settings, topics: Container[str], offset: int) -> CutsKept:
    """What the cuts topic holds for a reader that continues at ``offset``. Raises as ``newest_progress``."""
    topic = cuts_topic(settings.name)
    if topic not in topics:
        return CutsKept(0, 0, None)
    with PartitionLog(settings, topic, 0) as log:
        start, end = log.bounds()
        message = next(_cuts_alone(log.read(max(offset, start))), None) if offset < end else None
    return CutsKept(start, end, None if message is None else _decoded_cut(topic, message))


def cuts_from(settings: Settings, topics: Container[str], offset: int) -> Iterator[Cut]:
    """The cuts from an offset on, in their order. Raises as ``newest_progress``."""
    topic = cuts_topic(settings.name)
    if topic not in topics:
        return
    with PartitionLog(settings, topic, 0) as log:
        start, end = log.bounds()
        if offset < end:
            for message in _cuts_alone(log.read(max(offset, start), end)):
                yield _decoded_cut(topic, message)


def _cuts_alone(messages: Iterable[Message]) -> Iterator[Message]:
    """Without what another program wrote."""
    return (message for message in messages if is_control_record(message.value()))


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
        for message in islice(_cuts_alone(log.backwards()), UNCHANGED_CUTS_MAX):
            found = _decoded_cut(topic, message)
            if newest is None:
                newest = WrittenCut(found, message.timestamp()[1], Lsn(found.end_lsn))
            if changes_tables(found):
                break
            newest = replace(newest, unchanged_since=Lsn(found.previous_end_lsn))
    return newest


def relations(settings: Settings, topics: Container[str]) -> list[RelationRecord]:
    """Every Relation record, oldest first. Raises as ``newest_progress``."""
    if metadata_topic(settings.name) not in topics:  # else reading would wait for the topic
        return []
    return [record for record in read_metadata(settings)[0] if isinstance(record, RelationRecord)]
