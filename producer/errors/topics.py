"""What happened to a topic, or stands in its way, with the remedy of each."""

from collections.abc import Sequence

from walbridge.producer.errors.remedies import copied_again
from walbridge.producer.errors.tables import UnfitTable
from walbridge.schemas.errors import OperatorError, StreamLost, end_transaction
from walbridge.schemas.topics import cuts_topic, progress_topic


class ControlTopicLost(StreamLost):
    """A topic of all tables lacks what was in it. Only a start makes it again, and knows what it holds by then."""


class TopicLost(OperatorError):
    """Nothing more of the table is written to its topic: its next copy goes into another one."""


def topic_grown(table: str, topic: str, count: int, spread_over: int) -> TopicLost:
    """I3: keys that moved have older events in another partition."""
    return TopicLost(
        f"topic {topic} has {count} partitions, its rows were spread over {spread_over}: its keys would change "
        "partitions",
        remedy=copied_again(table),
    )


def partitions_set(table: str, topic: str, count: int, wanted: int) -> TopicLost:
    """The keys of a topic stay in their partitions, so other partitions are another topic's."""
    return TopicLost(
        f"topic {topic} has {count} partitions, and [topics] partitions is {wanted} by now",
        remedy=f"set it to {count} again; or {copied_again(table)}",
    )


def table_topic_gone(table: str, topic: str) -> TopicLost:
    """Offsets of a new one would begin at 0 again: no reader could tell what it lacks."""
    return TopicLost(
        f"topic {topic} of table {table} is gone, and with it the events that were in it", remedy=copied_again(table)
    )


def table_topic_remade(table: str, topic: str) -> TopicLost:
    """Offsets begin at 0 again: no reader could tell what the topic lacks."""
    return TopicLost(
        f"topic {topic} of table {table} was deleted and made again: the events that were in it are gone",
        remedy=copied_again(table),
    )


def table_topic_cut_short(table: str, topic: str) -> TopicLost:
    """What is written next would lie at offsets that readers have passed, or that cuts name for other records."""
    return TopicLost(
        f"topic {topic} of table {table} ends before records that were published: "
        "a broker lost what it had acknowledged",
        remedy=copied_again(table),
    )


def topic_given_up(table: str, topic: str) -> TopicLost:
    """It was said before why."""
    return TopicLost(f"nothing of table {table} is written to topic {topic} any more", remedy=copied_again(table))


def topic_gone(topic: str) -> ControlTopicLost:
    """A new one would begin in the middle of a table's life."""
    return ControlTopicLost(f"topic {topic} is gone, and with it the records that were in it")


def tail_lost(pipeline: str, published: int, written: int) -> ControlTopicLost:
    """What is published next would come twice, or behind a gap that no later cut closes."""
    return ControlTopicLost(
        f"{progress_topic(pipeline)} ends with cut {published}, and {cuts_topic(pipeline)} with cut {written}: "
        "a broker lost what it had acknowledged, or another program wrote there"
    )


def topic_remade(topic: str) -> ControlTopicLost:
    """Offsets begin at 0 again: no reader could tell what it lacks."""
    return ControlTopicLost(f"topic {topic} was deleted and made again: the records that were in it are gone")


def foreign_transaction(topic: str, offset: int) -> OperatorError:
    """Our own are ended before this is asked, since each start and session fences the one before it, or had time to
    end; but for one whose end a lone broker lost as it died, or of a producer that followed another cluster."""
    return OperatorError(
        f"a transaction that is not this producer's is open in {topic} since offset {offset}, and hides all records "
        "behind it",
        remedy=end_transaction(topic, offset),
    )


def metadata_gone(topic: str, relation_ids: Sequence[str]) -> ControlTopicLost:
    """Ids and partition counts come from these records, and readers need them for old events."""
    return ControlTopicLost(
        f"topic {topic} holds no record of relation {', '.join(relation_ids)}, whose events were written: records were "
        "removed from outside"
    )


class OtherFormat(UnfitTable, TopicLost):
    """Its topic is left, so nothing that is new of the table needs the schema registry."""


def format_set(table: str, topic: str, has: str, wanted: str) -> OtherFormat:
    """A topic is read with what its first record was read with, so another format is another topic's."""
    return OtherFormat(
        f"topic {topic} is in format {has}, and [topics] format is {wanted} by now",
        remedy=f'set it to "{has}" again; or {copied_again(table)}',
    )


def may_not_write(pipeline: str, reason: str) -> OperatorError:
    """Kafka refuses rows, control records or the transaction that holds them."""
    return OperatorError(
        f"the topics of pipeline {pipeline} may not be written: {reason}",
        remedy=f"grant Write on topics {pipeline}.* to walbridge's principal: walbridge init --acls prints the command",
    )
