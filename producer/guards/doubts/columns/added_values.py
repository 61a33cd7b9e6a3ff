"""Columns that were added with a default: older rows have its value, which no event brings.

In: the tables' files as progress remembers them and as they are; the newest recorded version of each table. Out: tables
whose versions will never have the value of older rows, and tables whose next version will have it.

A partitioned table has no rows of its own. Its version has the value of its partitions where that is one and the same
(``tables_facts``), and each partition is compared with it. ADD COLUMN alters all partitions that exist; a partition
that comes later has no older rows, or its coming is a doubt by itself.
"""

from collections.abc import Mapping

from walbridge.producer.guards.doubts import rewrites
from walbridge.producer.guards.doubts.rewrites import by_relation
from walbridge.producer.postgres.catalog import Publications
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import AddedColumn, TableFile, TableStorage
from walbridge.producer.postgres.storage.table_files import added_columns
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.pg_types import FIRST_USER_OID


class AddedValues:
    """Compares the added columns of one session's tables."""

    def __init__(self, publications: Publications, connection: SqlConnection, tables: Tables) -> None:
        self._publications, self._connection, self._tables = publications, connection, tables

    def compare(
        self, known: Mapping[int, TableStorage], found: Mapping[int, TableStorage]
    ) -> tuple[set[int], set[int]]:
        """Tables with a new column whose value in older rows no version will have; and tables whose next version will
        have it.

        Raises:
            RetryableError, OperatorError: the server is away or refuses.
        """
        counts = {}
        for relation_id, now in found.items():
            before = by_relation(known[relation_id])
            for file in now.files:
                if file.relation_id in before and rewrites.has_added_columns(before[file.relation_id], file):
                    counts[file.relation_id] = before[file.relation_id].column_count
        added = added_columns(self._connection, counts, self._publications) if counts else []
        numbers = {(each.relation_id, each.name): each.attnum for each in added}
        filled: set[int] = set()
        untold: set[int] = set()
        for table, now in found.items():
            files = by_relation(now)
            for column in [each for each in added if each.relation_id in files]:
                if column.relation_id == table:
                    is_told = self._is_told(column)
                else:
                    number = numbers.get((table, column.name))
                    is_told = self._is_told_below(table, number, column, files[column.relation_id])
                if is_told is not True:
                    (untold if is_told is None else filled).add(table)
        return filled, untold

    def _is_told(self, column: AddedColumn) -> bool | None:
        """Whether the newest version has the column's value in older rows; None where it is older than the column."""
        if self._is_made_again(column):
            # Rows about it are in the stream, or were: each change is read as a change of its own column.
            number_is_known = self._told(column.relation_id, column.attnum) is not None
            if not self._tables.told.tells_all(column.relation_id):
                return False
            if not number_is_known:
                return None
        if column.value is None:
            return True
        told = self._told(column.relation_id, column.attnum)
        if told and column.type_oid >= FIRST_USER_OID:
            return told == {column.value}  # a label, or an attribute, may have been renamed since
        return told if told is None else bool(told)

    def _is_told_below(self, root: int, number: int | None, column: AddedColumn, file: TableFile) -> bool | None:
        """The same for a column of a partition. The root, where the column has this number, must have the same
        value."""
        if not file.file:
            return True  # partitioned itself
        if number is None:
            return column.value is None
        told = self._told(root, number)
        if told is None:
            return True if column.value is None else None
        return told == {column.value} - {None}

    def _told(self, table: int, number: int) -> set[str] | None:
        """The value of older rows in the newest version, as a set of one or none; None where the version is older than
        the column."""
        version = self._tables.writers.current_version(table)
        columns = {each.attnum: each for each in version.table.columns} if version is not None else {}
        if number in columns:
            value = columns[number].missing_value
            return set() if value is None else {value}
        return set() if None in columns or not columns else None

    def _is_made_again(self, column: AddedColumn) -> bool:
        """Whether the column has the name and type of an earlier one with another number: the stream does not show
        which of the two a value is of. Within a session the newest version is enough to know, since the stream showed
        the drop; another session may begin before the drop."""
        wanted, writer = (column.name, column.type_oid, column.typmod), self._tables.writers.known(column.relation_id)
        versions = self._tables.versions.versions_of(column.relation_id) if writer is None else [writer.relation]
        return any(
            (each.name, each.type_oid, each.typmod) == wanted and each.attnum != column.attnum
            for version in versions
            for each in version.table.columns
        )
