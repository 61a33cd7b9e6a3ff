"""The source's side: what the publication publishes, in one snapshot.

In: a connection string and publications. Out: tables with their columns, fingerprints and rows,
all computed by Postgres. One REPEATABLE READ transaction is one snapshot over all tables; the
LSN asked for in its first statements is not before any commit that the snapshot sees.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg import sql

from walbridge.schemas.ddl_row import NOT_DDL_TABLE
from walbridge.schemas.position import parse_lsn
from walbridge.verify.comparison.differences import Row
from walbridge.verify.comparison.fingerprint import Fingerprint
from walbridge.verify.source_connection import Connection
from walbridge.verify.texts.source_text import SourceColumn, canonical_text, with_length

_FETCH_ROWS = 10_000
_PAGE_HEADER_BYTES = 24
_SEGMENT_HEADER_BYTES = 40

# Filters of several publications are OR'ed, and a partition comes as the root that any of them publishes.
# to_jsonb: attnames and rowfilter are there from version 15 on. 15 names generated columns, which
# only 18 and newer send.
_TABLES = f"""
WITH member AS (
  SELECT c.oid, o.oid AS publication, to_jsonb(p)->'attnames' AS columns,
         CASE WHEN o.pubinsert THEN coalesce(to_jsonb(p)->>'rowfilter', 'true') END AS row_filter
  FROM pg_publication_tables p JOIN pg_publication o ON o.pubname = p.pubname
  JOIN pg_namespace n ON n.nspname = p.schemaname
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
  WHERE p.pubname = ANY (%s) AND {NOT_DDL_TABLE}
), published AS (
  SELECT oid, string_agg(DISTINCT row_filter, ') OR (') AS row_filter,
         bool_or(row_filter = 'true') AS is_whole, jsonb_agg(columns ORDER BY publication)->0 AS columns
  FROM member GROUP BY oid
)
SELECT c.oid, n.nspname AS namespace, c.relname AS name, c.relkind AS kind, c.reltuples AS rows_estimated,
       CASE WHEN NOT is_whole THEN '(' || row_filter || ')' END AS row_filter,
       ARRAY(SELECT jsonb_array_elements_text(nullif(columns, 'null'))) AS published
FROM published JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT EXISTS (SELECT FROM pg_partition_ancestors(c.oid) f JOIN member m ON m.oid = f.relid WHERE f.relid <> c.oid)
ORDER BY 2, 3
"""
# Domains are followed down to what is under them, of columns and of elements; its typmod counts then.
_COLUMNS = """
WITH RECURSIVE type AS (
  SELECT t.oid, t.typname, t.typtype, t.typbasetype, t.typtypmod, t.typelem, n.nspname, e.extname
  FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
  LEFT JOIN pg_depend d ON d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e'
  LEFT JOIN pg_extension e ON e.oid = d.refobjid
), base AS (
  SELECT a.attnum, a.attname, a.atttypid AS oid, a.atttypmod AS typmod FROM pg_attribute a
  WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
    AND (%(published)s::text[] = '{}' OR a.attname = ANY(%(published)s))
    AND (a.attgenerated = '' OR %(published)s <> '{}' AND current_setting('server_version_num')::int >= 180000)
  UNION ALL
  SELECT b.attnum, b.attname, t.typbasetype, t.typtypmod FROM base b JOIN type t USING (oid) WHERE t.typtype = 'd'
), item AS (
  SELECT b.attnum, e.oid, b.typmod FROM base b JOIN type t USING (oid)
  JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
  UNION ALL
  SELECT i.attnum, t.typbasetype, t.typtypmod FROM item i JOIN type t USING (oid) WHERE t.typtype = 'd'
)
SELECT b.attname AS name, coalesce(i.typmod, b.typmod) AS typmod, t.nspname AS namespace,
       CASE WHEN i.oid IS NULL AND t.typtype = 'b' AND t.oid < 10000 THEN t.typname
            WHEN (t.extname, t.typname) IN (('hstore', 'hstore'), ('vector', 'vector'), ('vector', 'halfvec'))
            THEN t.typname ELSE '' END AS type_name,
       CASE WHEN e.typtype = 'e' OR (e.extname, e.typname) IN (('citext', 'citext'), ('ltree', 'ltree')) THEN 'enum'
            WHEN e.oid < 10000 AND e.typtype = 'b' THEN e.typname END AS element
FROM base b JOIN type t ON t.oid = b.oid AND t.typtype <> 'd'
LEFT JOIN (item i JOIN type e ON e.oid = i.oid AND e.typtype <> 'd') ON i.attnum = b.attnum
ORDER BY b.attnum
"""
_KEY = """
SELECT ARRAY(SELECT a.attname::text FROM pg_attribute a
             JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place) ON a.attnum = k.attnum
             WHERE a.attrelid = i.indrelid AND place <= i.indnkeyatts ORDER BY place) AS key
FROM pg_index i WHERE i.indrelid = %s AND i.indisvalid AND (i.indisprimary OR i.indisreplident)
ORDER BY i.indisprimary DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A published table. ``keys`` is empty for a table without one."""

    oid: int
    namespace: str
    name: str
    partitioned: bool
    rows_estimated: float
    row_filter: str | None
    columns: tuple[SourceColumn, ...]
    keys: tuple[str, ...]

    @property
    def qualified_name(self) -> str:
        """``schema.table``, for people."""
        return f"{self.namespace}.{self.name}"

    @property
    def column_names(self) -> list[str]:
        return [column.name for column in self.columns]


def current_lsn(connection: Connection) -> int:
    """Where the WAL stands: every commit visible by now is before it."""
    row = _one(
        connection,
        "SELECT pg_current_wal_insert_lsn()::text AS lsn, current_setting('wal_block_size')::int AS block_bytes,"
        " pg_size_bytes(current_setting('wal_segment_size')) AS segment_bytes",
    )
    return before_page_header(parse_lsn(row["lsn"]), row["block_bytes"], row["segment_bytes"])


def before_page_header(lsn: int, block_bytes: int, segment_bytes: int) -> int:
    """The end of the last record: at a page's end the insert position is already behind the next
    page's header, which no cut reaches while the source is quiet."""
    if lsn % segment_bytes == _SEGMENT_HEADER_BYTES:
        return lsn - _SEGMENT_HEADER_BYTES
    return lsn - _PAGE_HEADER_BYTES if lsn % block_bytes == _PAGE_HEADER_BYTES else lsn


@contextmanager
def snapshot(connection: Connection) -> Iterator["Source"]:
    """One snapshot over all tables."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield Snapshot(connection)


class Source:
    """The source as it is read in one or many statements: ``parts`` says which.

    ``lsn``: not before any commit that was seen so far.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._utf8 = _one(connection, "SELECT current_setting('server_encoding') AS name")["name"] == "UTF8"

    @property
    def lsn(self) -> int:
        return current_lsn(self._connection)

    def names(self, publications: Sequence[str]) -> list[str]:
        """``schema.table`` of what the publications publish, in order."""
        return [f"{row['namespace']}.{row['name']}" for row in self._published(publications)]

    def tables(self, publications: Sequence[str], names: Collection[str]) -> list[SourceTable]:
        """Those of these names, with the columns and rows that the publications publish together."""
        rows = self._published(publications)
        return [self._table(row) for row in rows if f"{row['namespace']}.{row['name']}" in names]

    def _published(self, publications: Sequence[str]) -> list[dict[str, Any]]:
        return self._connection.execute(_TABLES, (list(publications),)).fetchall()

    def parts(self, table: SourceTable) -> Iterator[str]:
        """Conditions on ``r``, of which each row of the table fulfils one. All of it at once, unless told otherwise."""
        yield "true"

    def fingerprint(self, table: SourceTable, digits: int) -> Fingerprint:
        """Counts and sums of all rows, aggregated by Postgres."""
        fingerprint = Fingerprint(digits)
        for part in self.parts(table):
            query = sql.SQL(
                "SELECT substr(digest, 1, {digits}) AS bucket, count(*) AS rows,"
                " sum(('x' || substr(digest, 18))::bit(60)::bigint) AS total FROM ({digests}) AS d GROUP BY 1"
            ).format(digits=sql.Literal(digits), digests=self._digests(table, part))
            with self._connection.cursor() as cursor:
                for row in cursor.execute(query):
                    fingerprint.add_bucket(row["bucket"], row["rows"], int(row["total"]))
        return fingerprint

    def rows(self, table: SourceTable, digits: int, buckets: Collection[int]) -> Iterator[tuple[str, Row]]:
        """Key and row of every row in the buckets; without keys the digest is the key."""
        for part in self.parts(table):
            query = sql.SQL(
                "SELECT key, digest, version FROM ({digests}) AS d WHERE substr(digest, 1, {digits}) = ANY({buckets})"
            ).format(
                digests=self._digests(table, part),
                digits=sql.Literal(digits),
                buckets=sql.Literal([f"{bucket:0{digits}x}" for bucket in buckets]),
            )
            with self._connection.transaction(), self._connection.cursor(name="walbridge_verify") as cursor:
                cursor.itersize = _FETCH_ROWS
                for row in cursor.execute(query):
                    yield row["key"] or row["digest"], Row(bytes.fromhex(row["digest"]), row["version"])

    def _table(self, row: dict[str, Any]) -> SourceTable:
        columns = self._connection.execute(_COLUMNS, row).fetchall()
        key = self._connection.execute(_KEY, (row["oid"],)).fetchone()
        names = {column["name"] for column in columns}
        keys = tuple(key["key"]) if key and names.issuperset(key["key"]) else ()
        return SourceTable(
            oid=row["oid"],
            namespace=row["namespace"],
            name=row["name"],
            partitioned=row["kind"] == "p",
            rows_estimated=row["rows_estimated"],
            row_filter=row["row_filter"],
            columns=tuple(SourceColumn(**column) for column in columns),
            keys=keys,
        )

    def _digests(self, table: SourceTable, part: str) -> sql.Composed:
        """Key, digest and version of every published row of a part.

        The inner select is kept apart (OFFSET 0) so that each text is computed once. ONLY: rows
        of child tables are published as the children's. Expressions are an array, not a chain
        of ``||``, whose nesting would exceed the stack at 1,600 columns.
        """
        texts, lengths = [], {}
        for index, column in enumerate(table.columns):
            identifier = sql.Identifier("r", column.name).as_string(self._connection)
            texts.append(f"{canonical_text(column, identifier, self._utf8)} AS c{index}")
            lengths[column.name] = with_length(f"c{index}", self._utf8)
        return sql.SQL(
            "SELECT {key} AS key, md5({row}) AS digest, version"
            " FROM (SELECT {texts} FROM {only}{table} AS r WHERE {where} OFFSET 0) AS t"
        ).format(
            key=_raw(_joined([lengths[key] for key in table.keys])),
            row=_raw(_encoded(_joined(list(lengths.values())), self._utf8)),
            texts=_raw(", ".join([*texts, "concat(r.tableoid, r.ctid, ':', r.xmin) AS version"])),
            only=sql.SQL("" if table.partitioned else "ONLY "),
            table=sql.Identifier(table.namespace, table.name),
            where=_raw(part if table.row_filter is None else f"{part} AND {table.row_filter}"),
        )


class Snapshot(Source):
    """The source at one moment: of a transaction that is open."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._lsn = current_lsn(connection)

    @property
    def lsn(self) -> int:
        return self._lsn


def _joined(texts: Sequence[str]) -> str:
    return f"array_to_string(ARRAY[{', '.join(texts)}]::text[], '')"


def _encoded(text: str, utf8: bool) -> str:
    return text if utf8 else f"convert_to({text}, 'UTF8')"


def _raw(text: str) -> sql.SQL:
    return sql.SQL(text)


def _one(connection: Connection, query: LiteralString) -> dict[str, Any]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row
