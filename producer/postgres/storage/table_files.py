"""The files in which tables lie, and what tells a rewrite of them: asked of the catalogue, no table is touched.

In: relation ids. Out: a ``TableStorage`` of each table, with the files of the partitions below it.
"""

from collections.abc import Iterable, Mapping

from walbridge.producer.postgres.catalog import MISSING_VALUE, Publications, rows_of, waiting_for_locks
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import AddedColumn, TableFile, TableStorage
from walbridge.producer.postgres.storage.enum_labels import BY_SAID, FACT, LABEL_SAID
from walbridge.producer.postgres.storage.used_types import with_used_types
from walbridge.schemas.errors import TableLocked

LISTS_SINCE, GENERATED_SINCE = 150_000, 180_000
"""Versions that have column lists, and that can publish generated columns."""
# What is out of line lies in a table of its own, which only a rewrite of values replaces (guards/doubts/rewrites.py).
# The versions of the columns' rows are asked for only where there is none. One that is being detached is detached: so
# says the stream.
# ATTACH makes a new version of every column's row, with the row of pg_inherits, in the transaction that made the table
# as in any later one. CREATE TABLE ... PARTITION OF makes them before, those of columns with a default, too. What
# somebody stamped since, and took back, tells no command any more.
_FILES = """
    WITH RECURSIVE tree AS (
      SELECT oid AS root, oid, 0::bigint AS joined, 0::bigint AS command FROM pg_class WHERE oid = ANY (%s)
      UNION SELECT t.root, i.inhrelid, i.xmin::text::bigint,
                   CASE WHEN i.xmax::text = '0' THEN i.cmin::text::bigint ELSE 0 END
            FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid
            JOIN pg_class p ON p.oid = t.oid AND p.relkind = 'p' {attached})
    SELECT t.root, c.oid, c.relfilenode, c.reltoastrelid, c.relnatts,
           CASE WHEN c.reltoastrelid = 0 AND c.relkind <> 'p' THEN
             (SELECT left(md5(coalesce(string_agg(a.xmin::text, ',' ORDER BY a.attnum), '')), 8)
              FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0) ELSE '' END,
           CASE WHEN t.root = c.oid THEN '' ELSE t.joined::text END,
           EXISTS (SELECT FROM pg_publication_rel r WHERE r.prrelid = c.oid),
           EXISTS (
             SELECT FROM pg_attribute s JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.xmin = s.xmin
               AND a.xmax::text = '0' AND NOT a.attisdropped AND a.cmin::text::bigint < t.command
             WHERE s.attrelid = c.oid AND s.attnum < 0 AND s.xmin::text::bigint = t.joined),
           c.relkind = 'p' OR (c.relkind = 'r' AND c.relpersistence = 'p'), c.xmin::text::bigint,
           CASE WHEN c.reltoastrelid = 0 AND c.relkind = 'r' THEN coalesce(
             (SELECT min(x.relfilenode::bigint) - c.relfilenode::bigint
              FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = c.oid), 0) ELSE 0 END
    FROM tree t JOIN pg_class c ON c.oid = t.oid ORDER BY t.root, c.oid"""
# A composite may have no attribute left. What was altered and altered back reads as before, but rows that came between
# were sent otherwise: who renames a label writes its row anew, and an attribute that was dropped keeps its number.
_LABELS = f""",
    fact AS (
      SELECT e.enumtypid AS oid, {LABEL_SAID} AS said FROM pg_enum e
      WHERE e.enumtypid IN (SELECT oid FROM used)
      UNION ALL SELECT t.oid, t.oid::text || ' ' || coalesce((
        SELECT string_agg(a.attnum::text, ',' ORDER BY a.attnum) FROM pg_attribute a
        WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped), '')
      FROM pg_type t WHERE t.typtype = 'c' AND t.oid IN (SELECT oid FROM used)
      UNION ALL SELECT e.enumtypid, {BY_SAID.format(oids="string_agg(e.oid::text, ',' ORDER BY e.oid)")}
      FROM pg_enum e WHERE e.enumtypid IN (SELECT oid FROM used) GROUP BY e.enumtypid, e.xmin::text
      UNION ALL SELECT t.oid, 'ever ' || c.relnatts FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid
      WHERE t.typtype = 'c' AND t.oid IN (SELECT oid FROM used))
    SELECT u.relid, array_agg(DISTINCT {FACT.format("f.oid", "f.said")})
    FROM used u JOIN fact f ON f.oid = u.oid GROUP BY 1"""
_KEYS = "SELECT conrelid::bigint, oid::bigint FROM pg_constraint WHERE contype = 'p' AND conrelid = ANY (%s)"
# A column that is not published for another reason stays so when its expression goes. Before 18 none is published; of
# several publications some may not, so that what others publish costs a copy at worst.
_WITHHELD = """
    SELECT a.attrelid::bigint, array_agg(a.attnum::int) FROM pg_attribute a
    WHERE a.attrelid = ANY (%s) AND a.attnum > 0 AND a.attgenerated <> '' AND NOT a.attisdropped {unpublished}
    GROUP BY 1"""
_UNPUBLISHED = """
    AND NOT EXISTS (
      SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
      WHERE p.pubname = ANY (%s) AND r.prrelid = a.attrelid AND a.attnum = ANY (r.prattrs))
    AND NOT (a.attgenerated = 's' AND coalesce(
      (SELECT bool_and(p.pubgencols = 's') FROM pg_publication p WHERE p.pubname = ANY (%s)), false))"""
_PLAIN = """
    SELECT DISTINCT a.attrelid::bigint FROM pg_attribute a
    JOIN unnest(%s::oid[], %s::int[]) AS known (relid, number) ON a.attrelid = known.relid AND a.attnum = known.number
    WHERE a.attgenerated = '' AND NOT a.attisdropped"""
_ADDED = f"""
    SELECT a.attrelid, a.attname, a.atttypid, a.atttypmod, a.attnum,
           CASE WHEN a.atthasmissing THEN {MISSING_VALUE} END
    FROM pg_attribute a
    JOIN unnest(%s::oid[], %s::int[]) AS known (relid, natts) ON a.attrelid = known.relid AND a.attnum > known.natts
    WHERE NOT a.attisdropped"""
# Several publications of one table publish the same columns, or the server sends nothing of it.
_LISTED = """
    AND NOT EXISTS (
      SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
      WHERE p.pubname = ANY (%s) AND r.prrelid = a.attrelid AND NOT a.attnum = ANY (r.prattrs))"""


def table_storages(
    connection: SqlConnection, relation_ids: Iterable[int], publications: Publications
) -> dict[int, TableStorage]:
    """By relation, of those that are there.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    wanted = list(relation_ids)
    attached = "AND NOT i.inhdetachpending" if connection.info.server_version >= 140000 else ""
    labels = dict(rows_of(connection, with_used_types(connection, _LABELS), (wanted,)))
    keys = dict(rows_of(connection, _KEYS, (wanted,)))
    withheld = _withheld(connection, wanted, publications)
    files: dict[int, list[TableFile]] = {}
    for root, *file in rows_of(connection, _FILES.format(attached=attached), (wanted,)):
        files.setdefault(root, []).append(TableFile(*file))
    return {
        root: TableStorage(
            tuple(of), frozenset(labels.get(root, ())), key=keys.get(root, 0), withheld=withheld.get(root, frozenset())
        )
        for root, of in files.items()
    }


def labels_within(connection: SqlConnection, relation_id: int) -> frozenset[str]:
    """``TableStorage.labels`` of one table, as the connection's snapshot shows it.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    found = rows_of(connection, with_used_types(connection, _LABELS), ([relation_id],))
    return frozenset(each for _, labels in found for each in labels)


def labels_of(connection: SqlConnection, enums: Iterable[int]) -> frozenset[str]:
    """What ``TableStorage.labels`` has of these types, of those that are there.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    query = "WITH used AS (SELECT 0 AS relid, unnest(%s::oid[]) AS oid)" + _LABELS
    return frozenset(each for _, labels in rows_of(connection, query, (list(enums),)) for each in labels)


def _withheld(
    connection: SqlConnection, relation_ids: list[int], publications: Publications
) -> dict[int, frozenset[int]]:
    if connection.info.server_version < GENERATED_SINCE:
        rows = rows_of(connection, _WITHHELD.format(unpublished=""), (relation_ids,))
    else:
        names = list(publications)
        rows = rows_of(connection, _WITHHELD.format(unpublished=_UNPUBLISHED), (relation_ids, names, names))
    return {relation_id: frozenset(numbers) for relation_id, numbers in rows}


def plain_columns(
    connection: SqlConnection, numbers: Mapping[int, Iterable[int]], publications: Publications
) -> set[int]:
    """Tables of which one of these columns is there and not generated, but for those that a column list leaves out.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    pairs = [(relation_id, number) for relation_id, of in numbers.items() for number in of]
    known = [[relation_id for relation_id, _ in pairs], [number for _, number in pairs]]
    if connection.info.server_version < LISTS_SINCE:
        return {each for (each,) in rows_of(connection, _PLAIN, known)}
    return {each for (each,) in rows_of(connection, _PLAIN + _LISTED, [*known, list(publications)])}


def added_columns(
    connection: SqlConnection, column_counts: Mapping[int, int], publications: Publications
) -> list[AddedColumn]:
    """The columns that were added to these relations after so many, without those that a column list leaves out.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    known = [list(column_counts), list(column_counts.values())]
    if connection.info.server_version < LISTS_SINCE:
        return [AddedColumn(*row) for row in rows_of(connection, _ADDED, known)]
    return [AddedColumn(*row) for row in rows_of(connection, _ADDED + _LISTED, [*known, list(publications)])]


def empty_of(connection: SqlConnection, relation_ids: Iterable[int]) -> set[int]:
    """Those of these tables that are empty, having no page. None at all if one of them is locked: then nobody knows.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    query = "SELECT oid::bigint FROM unnest(%s::oid[]) AS each (oid) WHERE pg_relation_size(oid) = 0"
    try:
        with waiting_for_locks(connection):
            return {each for (each,) in rows_of(connection, query, (list(relation_ids),))}
    except TableLocked:
        return set()
