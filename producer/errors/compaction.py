"""What keeps a table's topic from being compacted, with the remedy of each."""

from collections.abc import Sequence

from walbridge.producer.errors.remedies import copied_again
from walbridge.producer.errors.tables import UnfitTable
from walbridge.producer.errors.topics import TopicLost
from walbridge.schemas.table_schema import TableSchema


def cleanup_set(table: str, topic: str, *, is_compacted: bool) -> TopicLost:
    """What a topic was made for shows in its records: one that is compacted has keys on all of them."""
    has, wanted = ("compact", "delete") if is_compacted else ("delete", "compact")
    return TopicLost(
        f"topic {topic} of table {table} was made for cleanup {has}, and [topics.cleanup] says {wanted} by now",
        remedy=f'set "{table}" = "{has}" there again; or {copied_again(table)}',
    )


def compacted_without_key(table: TableSchema) -> UnfitTable:
    """Kafka compacts by key."""
    return UnfitTable(
        f"the topic of table {table.qualified_name} is to be compacted, and the table has no key",
        remedy=f"ALTER TABLE {table.quoted_name} ADD PRIMARY KEY (...); or take it out of [topics.cleanup]; "
        f"{copied_again(table.qualified_name)}",
    )


def compacted_without_values(table: TableSchema, columns: Sequence[str]) -> UnfitTable:
    """I6: the newest record of a key is all that is left of its row."""
    return UnfitTable(
        f"the topic of table {table.qualified_name} is to be compacted, and updates may come without the values of "
        f"{', '.join(columns)}, which may be stored out of line",
        remedy=f"{table.identity_full}; or take it out of [topics.cleanup]; {copied_again(table.qualified_name)}",
    )
