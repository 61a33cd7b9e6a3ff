"""Read the topics of a pipeline from Python: without Spark, Java or Postgres (the extra ``consumer``).

In: a pipeline's name, some of its tables, Kafka properties. Out: their events, decoded, committed ones only.

    from walbridge.consumer import events

    with events("shop", ["public.orders"], {"bootstrap.servers": "kafka1:9092", "group.id": "report"}) as stream:
        for event in stream:
            print(event.operation, event.position, event.after)
            stream.commit()
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal, overload

try:
    import confluent_kafka  # noqa: F401  # said in words, not by whichever module comes first
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "walbridge.consumer needs confluent_kafka; in a checkout of walbridge: pip install '.[consumer]'",
        name="confluent_kafka",
    ) from None

from walbridge.consumer.event import Event, Operation, PostgresText, Row
from walbridge.consumer.relations import Relations
from walbridge.consumer.topic_stream import EventStream
from walbridge.consumer.transaction_stream import Transactions, TransactionStream
from walbridge.consumer.wanted_tables import WantedTables
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import KafkaAway, OperatorError

__all__ = [
    "Event",
    "EventStream",
    "KafkaAway",
    "Operation",
    "OperatorError",
    "PostgresText",
    "Row",
    "TransactionStream",
    "Transactions",
    "events",
]


@overload
def events(
    pipeline: str,
    tables: Collection[str],
    kafka: Mapping[str, Any],
    *,
    transactions: Literal[False] = False,
    start: Mapping[PartitionId, int] | None = None,
    topic_ids: Mapping[str, str] | None = None,
    follow: bool = True,
) -> EventStream: ...


@overload
def events(
    pipeline: str,
    tables: Collection[str],
    kafka: Mapping[str, Any],
    *,
    transactions: Literal[True],
    start: Mapping[PartitionId, int] | None = None,
    topic_ids: Mapping[str, str] | None = None,
    follow: bool = True,
) -> TransactionStream: ...


def events(
    pipeline: str,
    tables: Collection[str],
    kafka: Mapping[str, Any],
    *,
    transactions: bool = False,
    start: Mapping[PartitionId, int] | None = None,
    topic_ids: Mapping[str, str] | None = None,
    follow: bool = True,
) -> EventStream | TransactionStream:
    """The events of some tables.

    Args:
        pipeline: its name.
        tables: as ``schema.table``; in ``public`` the table's name alone will do.
        kafka: librdkafka properties. ``group.id`` names whose offsets are read at the beginning, and committed by
            ``commit``; no group is joined, so one program at a time reads with it.
        transactions: whole transactions in the order of their commits, instead of single events in the order of each
            partition.
        start: offsets by topic and partition to begin at, as ``offsets`` of the stream told them.
        topic_ids: as ``topic_ids`` of that stream told them: offsets are refused where a topic was made again since,
            and so is a beginning without any.
        follow: wait for more at the end; else that ends the iteration.

    Raises:
        OperatorError: no such pipeline or table, or a property that cannot be; ``remedy`` says what mends it.
        KafkaAway: no broker answers.
    """
    relations = Relations(kafka, pipeline)
    try:
        wanted = WantedTables(relations, tables)
        if transactions:
            return TransactionStream(kafka, pipeline, relations, wanted, start or {}, topic_ids or {}, follow=follow)
        return EventStream(kafka, relations, wanted, start or {}, topic_ids or {}, follow=follow)
    except BaseException:
        relations.close()
        raise
