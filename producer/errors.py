"""Errors that several modules raise, or the check as well, each with its remedy."""

import json
from collections.abc import Sequence

import fastavro

from walbridge.schemas.avro.codec import decode_body
from walbridge.schemas.control.message_schema import MESSAGES_RELATION_ID
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.errors import (
    COPY_AGAIN,
    COPY_ALL,
    OperatorError,
    ProtocolError,
    StreamLost,
    Superseded,
    copy_command,
)
from walbridge.schemas.position import Lsn, Position, format_lsn
from walbridge.schemas.table_schema import quoted

ON_UNKNOWN_VALUE = (
    'set [producer] on_unknown_value = "stale": the lake\'s table is then marked stale when that happens, and the '
    "others go on"
)
BINARY_OFF = "set [postgres] binary = false, which changes no event"
_RAISE_ROW_BYTES = "raise [producer] row_bytes_max, start the producer again"
_NOTHING_CONFIRMED = "nothing of them was confirmed: "
_KEEP_ON_SERVER = 'or set [postgres] streaming = "off", so that the server keeps them'


def copied_again(table: str) -> str:
    """The remedy of what a copy mends."""
    return f'{copy_command(table)}; where [producer] on_table_error is "stop", set it to "copy" instead'


def the_publications(publications: Sequence[str]) -> str:
    """Them, named within a sentence."""
    return f"publication{'' if len(publications) == 1 else 's'} {', '.join(publications)}"


def _were(publications: Sequence[str]) -> str:
    return "was" if len(publications) == 1 else "were"


def publication_missing(publication: str) -> OperatorError:
    """Never made unasked: FOR ALL TABLES needs a superuser and takes tables nobody meant."""
    return OperatorError(
        f"publication {publication} does not exist",
        remedy=f"CREATE PUBLICATION {quoted(publication)} FOR TABLE ...; or name its tables in [postgres] "
        "publication_tables and run walbridge init",
    )


def publication_gone(publications: Sequence[str]) -> OperatorError:
    """Changes under no publication are not sent, and no server says so from Postgres 18 on."""
    return StreamLost(
        f"{the_publications(publications)}, which this pipeline follows, {_were(publications)} dropped: "
        "changes since then did not come"
    )


def publication_remade(publications: Sequence[str]) -> OperatorError:
    """It may read exactly as before, but no change was sent while it did not exist."""
    return StreamLost(
        f"{the_publications(publications)} {_were(publications)} dropped and made again: changes between did not come"
    )


def other_publication(publications: Sequence[str], followed: Sequence[str]) -> OperatorError:
    """None was dropped: the settings name others. One that was only renamed is another one, too: Postgres looks its
    name up as of each change, and from 18 on leaves out without a word what came before the name."""
    before = ", ".join(followed)
    return StreamLost(
        f"[postgres] publication names {', '.join(publications)}, this pipeline follows {before}",
        instead=f"name {before} again",
    )


def operations_missing(
    publications: Sequence[str], operations: Sequence[str], *, is_told_later: bool | None = None
) -> OperatorError:
    """Postgres leaves them out without a word.

    Args:
        is_told_later: whether a start can tell afterwards that they were left out; None before a pipeline begins.
    """
    verb, then = "does" if len(publications) == 1 else "do", ""
    if is_told_later is not None:
        then = " then start walbridge produce, which copies the tables again of which changes may be missing"
    if is_told_later is False:
        then = f" if there were any since the copy, {COPY_ALL}"
    return OperatorError(
        f"{the_publications(publications)} {verb} not publish {', '.join(operations)}: such changes do not come",
        remedy=f"{publish_all(publications[:1])}{then}",
    )


def publish_all(publications: Sequence[str]) -> str:
    """SQL: these publish all operations."""
    every = "SET (publish = 'insert, update, delete, truncate')"
    return " ".join(f"ALTER PUBLICATION {quoted(each)} {every};" for each in publications)


def membership_changed(publications: Sequence[str], table: str) -> OperatorError:
    """Rows outside the old filter, or changes made in between, were never sent."""
    of_several = "" if len(publications) == 1 else ", or what one of them publishes,"
    return OperatorError(
        f"table {table} was taken out of {the_publications(publications)} and put back, or its row filter or column "
        f"list{of_several} was changed: rows or changes of it are missing",
        remedy=copied_again(table),
    )


def named_otherwise(publications: Sequence[str], table: str) -> OperatorError:
    """What is said of it by name says nothing of its rows."""
    verb = "publishes" if len(publications) == 1 else "publish"
    return OperatorError(
        f"{the_publications(publications)} {verb} table {table} as its root, or as its partitions: no change comes "
        "under its own name",
        remedy=f"walbridge forget {table}, once walbridge tables calls it dropped; or set publish_via_partition_root "
        "as it was, and it is copied again",
    )


def publication_altered(publications: Sequence[str], table: str) -> OperatorError:
    """What its options were between two looks is written nowhere: only who wrote them last."""
    return OperatorError(
        f"{the_publications(publications)} {_were(publications)} altered since table {table} was last looked at, or it "
        "was out of there meanwhile: changes of it may be missing",
        remedy=copied_again(table),
    )


class TableRewritten(OperatorError):
    """Rows that were there may have other values. Owners do that on purpose, so it may come as often as they like."""


def table_rewritten(table: str) -> TableRewritten:
    """Postgres sends no change of the rows that it rewrites."""
    return TableRewritten(
        f"table {table} was rewritten, or a partition of it was rewritten or emptied: its rows may have other values, "
        "which were not sent",
        remedy=copied_again(table),
    )


def found_unequal(table: str) -> OperatorError:
    """Whatever brought that about: nobody knows which of its other rows are right."""
    return OperatorError(
        f"table {table} in the lake was compared with its source, and rows of it differ",
        remedy=copied_again(table),
    )


def partitions_changed(table: str) -> TableRewritten:
    """Postgres sends nothing of the rows that come and go with a partition."""
    return TableRewritten(
        f"partitions of table {table} were attached, detached or dropped: their rows came and went unsaid",
        remedy=copied_again(table),
    )


def partition_not_sent(table: str) -> TableRewritten:
    """What is read of it now changes unsaid."""
    return TableRewritten(
        f"a partition of table {table} is unlogged or a foreign table: Postgres never sends its changes",
        remedy="ALTER TABLE ... SET LOGGED, or detach it",
    )


def labels_changed(table: str) -> TableRewritten:
    """Postgres sends no change of the rows that hold them."""
    return TableRewritten(
        f"a type of table {table} was altered: labels or attributes that its rows hold are others now",
        remedy=copied_again(table),
    )


def column_added_with_values(table: str) -> TableRewritten:
    """Postgres sends no change of the rows that were there."""
    return TableRewritten(
        f"table {table} got a column with a default, or a column was dropped and added again: the value of rows that "
        "were there was not sent",
        remedy=copied_again(table),
    )


def generated_columns_changed(publications: Sequence[str], table: str) -> OperatorError:
    """Like a column list: rows that were there before have no value of such a column, or keep an old one."""
    return OperatorError(
        f"publish_generated_columns of {the_publications(publications)} was changed: rows of table {table} that do "
        "not change lack the new columns",
        remedy=copied_again(table),
    )


def row_filter_loses_values(table: str, columns: Sequence[str], mend: str) -> OperatorError:
    """Refused before it happens: afterwards nothing can be mended but by a new copy (I6)."""
    return OperatorError(
        f"table {table} has a row filter and a replica identity that is not FULL: an UPDATE that moves a row into the "
        f"filter is sent as an INSERT without unchanged values of {', '.join(columns)} that are stored out of line",
        remedy=f"{mend} or {ON_UNKNOWN_VALUE}",
    )


def split_differs(what: str) -> OperatorError:
    """A transaction is half published, and what is read again is not what was published (I7)."""
    return StreamLost(what, instead="if the publication was changed meanwhile, change it back")


def dropped_meanwhile(table: str) -> OperatorError:
    """Between the look at the publication and the look at the table."""
    return OperatorError(f"table {table} was dropped meanwhile", remedy="run the same command again")


def spool_full(count: int, used_bytes: int, folder: str, limit_bytes: int) -> OperatorError:
    """Stopping loses nothing (I7)."""
    return OperatorError(
        f"{count} transactions that are not committed yet take {used_bytes:,} bytes in {folder}: "
        f"[producer] spool_bytes_max is {limit_bytes:,}",
        remedy=f"{_NOTHING_CONFIRMED}raise [producer] spool_bytes_max, or name a larger disk in [producer] spool_dir; "
        + _KEEP_ON_SERVER,
    )


def spool_unwritable(folder: str, reason: str | None) -> OperatorError:
    """A disk that fails us."""
    return OperatorError(
        f"transactions that are not committed yet cannot be kept in {folder}: {reason}",
        remedy=f"{_NOTHING_CONFIRMED}make room there, or name another folder in [producer] spool_dir; "
        + _KEEP_ON_SERVER,
    )


def set_aside_full(table: str, folder: str, limit_bytes: int) -> OperatorError:
    """Its copy begins again later: nothing of the table is published meanwhile (I7)."""
    return OperatorError(
        f"the changes of {table} while it was read in one piece do not fit into {folder}: "
        f"[producer] spool_bytes_max is {limit_bytes:,}",
        remedy=f"raise [producer] spool_bytes_max, or give {table} a primary key, by which it is read in parts",
    )


def set_aside_unwritable(table: str, folder: str, reason: str | None) -> OperatorError:
    """Likewise."""
    return OperatorError(
        f"the changes of {table} while it was read in one piece cannot be kept in {folder}: {reason}",
        remedy="make room there, or name another folder in [producer] spool_dir",
    )


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
    """Likewise."""
    return TopicLost(
        f"topic {topic} of table {table} was deleted and made again: the events that were in it are gone",
        remedy=copied_again(table),
    )


def topic_given_up(table: str, topic: str) -> TopicLost:
    """It was said before why."""
    return TopicLost(f"nothing of table {table} is written to topic {topic} any more", remedy=copied_again(table))


def topic_gone(topic: str) -> OperatorError:
    """A new one would begin in the middle of a table's life."""
    return OperatorError(f"topic {topic} is gone, and with it the events that were in it", remedy=COPY_AGAIN)


def topic_remade(topic: str) -> OperatorError:
    """Offsets begin at 0 again: no reader could tell what it lacks."""
    return OperatorError(
        f"topic {topic} was deleted and made again: the events that were in it are gone", remedy=COPY_AGAIN
    )


def metadata_gone(topic: str, relation_ids: Sequence[str]) -> OperatorError:
    """Ids and partition counts come from these records, and readers need them for old events."""
    return OperatorError(
        f"topic {topic} holds no record of relation {', '.join(relation_ids)}, whose events were written",
        remedy=f"records were removed from outside: {COPY_AGAIN}",
    )


def not_published(publications: Sequence[str]) -> OperatorError:
    """An empty publication would copy nothing and say that all is well."""
    return OperatorError(
        f"{the_publications(publications)} {'holds' if len(publications) == 1 else 'hold'} no tables",
        remedy=f"ALTER PUBLICATION {quoted(publications[0])} ADD TABLE ...;",
    )


def wal_level_too_low(level: str) -> OperatorError:
    """Logical decoding needs more in the WAL."""
    return OperatorError(
        f"the server has wal_level = {level}",
        remedy="ALTER SYSTEM SET wal_level = logical; and restart the server",
    )


def not_utf8(encoding: str) -> OperatorError:
    """SQL_ASCII is not converted: its bytes may be no UTF-8, which Avro strings must be."""
    return OperatorError(
        f"the database's encoding is {encoding}, which Postgres does not convert to UTF-8",
        remedy="dump it and load it into a database created with ENCODING 'UTF8'",
    )


def another_runs(transactional_id: str, pipeline: str, slot: str) -> Superseded:
    """Two producers of one slot: Kafka lets the newer one write, and refuses the older."""
    return Superseded(
        f"another producer runs under transactional id {transactional_id}: it took pipeline {pipeline}, slot {slot}, "
        "over, and this one ends; nothing is lost, the other goes on after the last batch that Kafka committed",
        remedy="do nothing if the other is to go on; else stop it and start this one again: a slot has one producer",
    )


def slot_has_producer(slot: str, holder: str, pid: int) -> Superseded:
    """The second producer of a slot ends, and the first goes on."""
    return Superseded(
        f"slot {slot} has a producer: {holder}; this one has waited for its end and published nothing",
        remedy="do nothing if that one is to go on; else stop it, then start this one again; if its machine is gone "
        f"for good: SELECT pg_terminate_backend({pid});",
    )


class UnfitTable(OperatorError):
    """A version of a table with which nothing can be published. A copy begins once a person has mended that."""


def key_lost(table: str, partition_count: int) -> UnfitTable:
    """I3: over several partitions rows have no order but that of their key."""
    return UnfitTable(
        f"table {table} has no key any more, but its topic has {partition_count} partitions, over which rows without a "
        "key have no order",
        remedy=f"give it a primary key again; {copied_again(table)}",
    )


class OtherFormat(UnfitTable, TopicLost):
    """Its topic is left, so nothing that is new of the table needs the schema registry."""


def format_set(table: str, topic: str, has: str, wanted: str) -> OtherFormat:
    """A topic is read with what its first record was read with, so another format is another topic's."""
    return OtherFormat(
        f"topic {topic} is in format {has}, and [topics] format is {wanted} by now",
        remedy=f'set it to "{has}" again; or {copied_again(table)}',
    )


class UncertainColumn(UnfitTable, TableRewritten):
    """A copy mends it, however often it comes."""


def column_uncertain(table: str, column: str) -> UncertainColumn:
    """What came under its name may be the values of another column, or read otherwise by now."""
    return UncertainColumn(
        f"column {column} of table {table} was told when the catalogue had another one, which may have its name, "
        "or another type of it",
        remedy=copied_again(table),
    )


class UnfitRow(OperatorError):
    """A row of which there is no record, or none that Kafka takes. A copy of its table meets it as well."""


def unfit_row(relation: RelationRecord, position: Position, error: ProtocolError | UnfitRow) -> UnfitRow:
    """Bytes that are no value of their type as this code knows it."""
    if isinstance(error, UnfitRow):
        return error
    name = relation.table.qualified_name
    return UnfitRow(
        f"a row of table {name} cannot be published, at {format_lsn(position.commit_lsn)}: {error}",
        remedy=f"report this with the server's version; {copied_again(name)}",
    )


def row_too_large(relation: RelationRecord, value: bytes, row_bytes_max: int) -> UnfitRow:
    """Named by its table, its place and its key's columns: what stands in them is nobody's here (I10)."""
    source = decode_body(value, fastavro.parse_schema(json.loads(relation.value_schema)))["source"]
    if relation.table.relation_id == MESSAGES_RELATION_ID:
        return UnfitRow(
            f"a logical message takes {len(value):,} bytes, at {format_lsn(Lsn(source['commit_lsn']))}: "
            f"[producer] row_bytes_max is {row_bytes_max:,}",
            remedy=f"{_RAISE_ROW_BYTES}; or leave its prefix out by [postgres] message_prefixes",
        )
    table = relation.table
    names = ", ".join(quoted(column.name) for column in table.key_columns or table.columns[:1])
    return UnfitRow(
        f"a row of table {table.qualified_name} (key: {', '.join(each.name for each in table.key_columns) or 'none'}) "
        f"takes {len(value):,} bytes, at {format_lsn(Lsn(source['commit_lsn']))}, ordinal {source['ordinal']}: "
        f"[producer] row_bytes_max is {row_bytes_max:,}",
        remedy=f"{_RAISE_ROW_BYTES}; where walbridge tables calls the table quarantined, then "
        f"{copy_command(table.qualified_name)}; which row it is: SELECT {names} FROM {table.quoted_name} AS r "
        "ORDER BY octet_length(r::text) DESC LIMIT 1",
    )


def may_not_write(pipeline: str, reason: str) -> OperatorError:
    """Kafka refuses rows, control records or the transaction that holds them."""
    return OperatorError(
        f"the topics of pipeline {pipeline} may not be written: {reason}",
        remedy=f"grant Write on topics {pipeline}.* to walbridge's principal: walbridge init --acls prints the command",
    )


def record_too_large(topic: str, value: bytes, row_bytes_max: int) -> OperatorError:
    """As ``row_too_large``, of a record whose relation is not known."""
    return OperatorError(
        f"a record for topic {topic} has {len(value):,} bytes, [producer] row_bytes_max is {row_bytes_max:,}",
        remedy=_RAISE_ROW_BYTES,
    )
