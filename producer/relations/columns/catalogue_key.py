"""The key that the stream does not tell, which is the catalogue's primary key, under FULL and NOTHING. Pure.

In: the relation with its columns' numbers, the catalogue's facts, the versions that were recorded, oldest first. Out:
the names of the key's columns.

A key that was added later says nothing of earlier rows, several of which may be equal in it: a delete of one of them
would take all. Without a key such a table is right as well. So a table never gains a key, and its key never changes
unless its rows need one for their order, as over several partitions.
"""

from collections.abc import Collection, Sequence

from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.postgres.facts import TableFacts
from walbridge.producer.relations.columns.known_columns import Numbers, version_with_same_columns
from walbridge.schemas.control.metadata_record import RelationRecord


def catalogue_key(
    relation: Relation, facts: TableFacts | None, numbers: Numbers, versions: Sequence[RelationRecord]
) -> Collection[str]:
    """The key of a relation whose identity does not tell it: names of columns."""
    if facts is None:
        of_identity = [each for each in versions if _identity(each) == relation.replica_identity]
        same = version_with_same_columns(relation, of_identity)
        return {column.name for column in same.table.key_columns} if same else set()
    primary = {each.attnum: each.name for each in facts.columns if each.in_primary_key}
    key = {
        column.name: number
        for column, number in zip(relation.columns, numbers, strict=True)
        if (number in primary if number is not None else column.name in primary.values())
    }
    # A column list that leaves out a part of the key leaves no key.
    is_whole = len(key) == len(primary)
    return key.keys() if is_whole and _was_key(key, versions) else set()


def _was_key(key: dict[str, int | None], versions: Sequence[RelationRecord]) -> bool:
    if not versions:
        return True  # of a copy, whose snapshot has this key
    if not all(each.table.key_columns for each in versions):
        return False
    newest = {column.name: column.attnum for column in versions[-1].table.key_columns}
    is_same = newest.keys() == key.keys() or set(newest.values()) == set(key.values())
    return is_same or versions[-1].partition_count > 1


def _identity(version: RelationRecord) -> str:
    return version.table.replica_identity
