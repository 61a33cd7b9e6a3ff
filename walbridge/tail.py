"""``walbridge tail``: the events of one table's topic, or the logical messages, as JSON lines.

In: a table, and where to begin. Out: committed events only. Events that are in the topic already
are merged over the partitions by position; later ones are printed as they come, in position order
within each partition. One event of each partition is in memory at a time (I9).
"""

import heapq
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, TopicPartition

from walbridge.control_records import relations, topics_there
from walbridge.producer.kafka.partition_log import SLICE_S, PartitionLog, read_only_consumer
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres.connection import retry_at_start
from walbridge.readable_event import EventDecoder, ReadableEvent
from walbridge.schemas.avro.framing import is_event
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import OperatorError, ProtocolError, RetryableError, copy_command
from walbridge.schemas.position import COPIED_ORDINAL, Position, parse_lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import messages_topic

ANSWER_S = 10
"""Kafka is waited for as long as the producer would at its start, but not longer than this: a person waits."""
MESSAGES = "--messages"
"""Stands for the logical messages in place of a table's name; no unquoted table name looks like this."""
_AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where to begin: at a position, or with the ``last`` events in the topic."""

    position: Position | None = None
    last: int = 10


def parse_position(text: str) -> Position:
    """The position of ``16/B374D848`` or, as tail prints it, ``16/B374D848/0``.

    Raises:
        OperatorError: the text has neither form.
    """
    high, _, rest = text.partition("/")
    low, slash, ordinal = rest.partition("/")
    try:
        return Position(parse_lsn(f"{high}/{low}"), int(ordinal) if slash else COPIED_ORDINAL)
    except (ProtocolError, ValueError):
        raise OperatorError(
            f"{text!r} is no position", remedy="give an LSN, or LSN/ordinal as tail prints them: --from 16/B374D848/0"
        ) from None


def tail(settings: Settings, table: str, beginning: Beginning, *, follow: bool, say: Callable[[str], None]) -> int:
    """Print events until the end, or with ``follow`` until Ctrl-C. Ends without an error if the output pipe is closed.

    Raises:
        OperatorError: no such table, or Kafka does not answer.
        RetryableError: Kafka went away meanwhile.
    """
    try:
        _print(_events(settings, table, beginning, follow=follow, say=say), flush=follow)
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # Else Python would print an error at exit when it flushes the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _print(events: Iterable[ReadableEvent], *, flush: bool) -> None:
    for event in events:
        print(event.line, flush=flush)
    sys.stdout.flush()


def _events(
    settings: Settings, table: str, beginning: Beginning, *, follow: bool, say: Callable[[str], None]
) -> Iterator[ReadableEvent]:
    answer_s = min(ANSWER_S, settings.postgres.start_timeout_s)
    topic, partitions = retry_at_start(lambda: _place_of(settings, table), answer_s)
    if not partitions and table == MESSAGES:
        raise OperatorError(
            "no logical message of this pipeline is in Kafka yet",
            remedy="set messages = true in [postgres], and run walbridge produce",
        )
    if not partitions:
        raise OperatorError(
            f"topic {topic} of table {table} is gone",
            remedy=f"{copy_command(table)}: the producer copies it into another topic, if it has not done so by itself",
        )
    decoder = EventDecoder(lambda: relations(settings, topics_there(settings)))
    with ExitStack() as stack:
        logs = [stack.enter_context(PartitionLog(settings, topic, each)) for each in range(partitions)]
        yield from _present(logs, decoder, beginning)
        next_offsets = [log.next_offset for log in logs]
    if follow:
        yield from _decoded(decoder, _coming(settings, topic, next_offsets, say))


def _place_of(settings: Settings, table: str) -> tuple[str, int]:
    """A table's topic, and how many partitions it has: none where it is gone."""
    known = relations(settings, topics_there(settings))
    topic = messages_topic(settings.name) if table == MESSAGES else topic_of(table, known)
    return topic, TopicAdmin(settings).partition_counts_of([topic]).get(topic, 0)


def topic_of(table: str, known: Iterable[RelationRecord]) -> str:
    """The topic of ``schema.table``; of one in ``public`` the table's name alone will do.

    Raises:
        OperatorError: no such table, naming those that exist.
    """
    records = [record for record in known if record.table.relation_id != MESSAGES_RELATION_ID]
    newest = {record.table.relation_id: record for record in records}
    # A table that was renamed is found by its name of before, too, unless another one has that now.
    topics = {record.table.qualified_name: record.topic for record in [*records, *newest.values()]}
    found = topics.get(table) or topics.get(f"public.{table}")
    if found is None:
        mend = f"name one of its tables: {', '.join(sorted(topics))}"
        first = "run walbridge produce: it has not begun its first copy"
        raise OperatorError(f"this pipeline has no table {table}", remedy=mend if topics else first)
    return found


def _decoded(decoder: EventDecoder, messages: Iterable[Message]) -> Iterator[ReadableEvent]:
    return (decoder.decode(message) for message in messages if _is_event(message))


def _is_event(message: Message) -> bool:
    """Tombstones are none, nor is what another program wrote."""
    value = message.value()
    return value is not None and is_event(value)


def _present(logs: list[PartitionLog], decoder: EventDecoder, beginning: Beginning) -> Iterable[ReadableEvent]:
    wanted = beginning.position
    if wanted is None:
        # Behind each delete there may be a tombstone.
        lasts = [_decoded(decoder, log.last(2 * beginning.last)) for log in logs]
        merged = list(heapq.merge(*lasts, key=_position))
        return merged[max(0, len(merged) - beginning.last) :]
    starts = [log.first_offset(lambda message: decoder.position(message) >= wanted, _is_event) for log in logs]
    streams = [_decoded(decoder, log.read(start)) for log, start in zip(logs, starts, strict=True)]
    return (event for event in heapq.merge(*streams, key=_position) if event.position >= wanted)


def _position(event: ReadableEvent) -> Position:
    return event.position


def _coming(settings: Settings, topic: str, next_offsets: list[int], say: Callable[[str], None]) -> Iterator[Message]:
    """What is committed from now on. While Kafka is away it waits, and says so."""

    def tell(error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            say(f"waiting for Kafka at {settings.kafka.bootstrap_servers}")

    consumer = read_only_consumer(settings, {"error_cb": tell})
    try:
        consumer.assign([TopicPartition(topic, each, offset) for each, offset in enumerate(next_offsets)])
        while True:
            message = consumer.poll(SLICE_S)
            error = message.error() if message is not None else None
            if message is not None and error is None:
                yield message
            elif error is not None and error.code() not in (KafkaError._PARTITION_EOF, *_AWAY):
                raise RetryableError(error.str())
    finally:
        consumer.close()
