"""What pgoutput omits, from the catalogue: published tables, attnums, keys, type facts.

In: a SQL connection. Out: values. The catalogue says *now* while the WAL says *then*: whoever
uses a fact checks first that the catalogue still describes the relation that was announced.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any

import psycopg

from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.postgres.facts import ColumnFacts, Membership, PublishedTable, TableFacts
from walbridge.producer.postgres.publications.combined_publications import OPERATIONS, named_in_stream, row_filter_of
from walbridge.producer.postgres.server_errors import classified
from walbridge.schemas.ddl_row import NOT_DDL_TABLE
from walbridge.schemas.errors import LOCKED, TableLocked
from walbridge.schemas.pg_types import FIRST_USER_OID, TypeFacts

Publications = tuple[str, ...]
"""Names of publications that are followed together."""
ALTERED_S = 1.0
LOCKED_MS = 1_000
LOOK_AGAIN_S = 0.005
INDEX_KEY = "(i.indkey::int2[])[0:i.indnkeyatts - 1]"
"""SQL: the attribute numbers of an index's key, ``i`` being its row of pg_index, without what it merely INCLUDEs."""


def rows_of(connection: psycopg.Connection[Any], query: str, parameters: Sequence[Any] = ()) -> list[Any]:
    """What a query finds.

    Raises:
        TableLocked: a lock did not come in the time that the session allows.
        RetryableError, OperatorError: the server is away or refuses.
    """
    try:
        return connection.execute(query.encode(), [*map(_as_text_if_numbers, parameters)]).fetchall()
    except psycopg.Error as error:
        raise classified(error) from None


def _as_text_if_numbers(parameter: Any) -> Any:
    """A list of numbers as the text of its array: psycopg would look for the type of each number."""
    if isinstance(parameter, list) and parameter and all(type(each) is int for each in parameter):
        return f"{{{','.join(map(str, parameter))}}}"
    return parameter


@contextmanager
def waiting_for_locks(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """A block in which each lock is waited for ``LOCKED_MS`` at most, not for hours: then it ends with TableLocked."""
    set_timeout = "SELECT set_config('lock_timeout', %s, false)"
    rows_of(connection, set_timeout, (f"{LOCKED_MS}ms",))
    try:
        yield
    finally:
        # A transaction that has failed takes the setting back itself, at its end.
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.INERROR:
            rows_of(connection, set_timeout, ("0",))


def setting(connection: psycopg.Connection[Any], name: str) -> str:
    """SHOW name."""
    return str(rows_of(connection, "SELECT current_setting(%s)", (name,))[0][0])


def is_standby(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server follows another one."""
    return bool(rows_of(connection, "SELECT pg_is_in_recovery()")[0][0])


def publication_exists(connection: psycopg.Connection[Any], publication: str) -> bool:
    """A missing one is a silent stream on Postgres 18 and a stuck slot before: so we ask."""
    return bool(rows_of(connection, "SELECT 1 FROM pg_publication WHERE pubname = %s", (publication,)))


def role_exists(connection: psycopg.Connection[Any], role: str) -> bool:
    """Whether the server has a role of this name."""
    return bool(rows_of(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)))


def may_make_roles(connection: psycopg.Connection[Any]) -> bool:
    """Whether who asks is an administrator, as far as roles go."""
    asked = "SELECT 1 FROM pg_roles WHERE rolname = current_user AND (rolsuper OR rolcreaterole)"
    return bool(rows_of(connection, asked))


_PUBLISHED = """
    SELECT c.oid, n.nspname, c.relname, c.relreplident, c.relkind = 'p',
           ARRAY(SELECT f.relid::oid FROM pg_partition_ancestors(c.oid) f WHERE f.relid <> c.oid),
           t.pubname, ARRAY[p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate],
           ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
                 AND NOT a.attisdropped {generated} {listed} ORDER BY a.attnum),
           {row_filter}, {attnames}, {has_list}, p.puballtables OR {by_schema}
    FROM pg_publication_tables t
    JOIN pg_publication p ON p.pubname = t.pubname
    JOIN pg_namespace n ON n.nspname = t.schemaname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
    WHERE t.pubname = ANY (%s) AND {others} ORDER BY 2, 3, p.oid"""
_HAS_LIST = (
    "EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid AND r.prattrs IS NOT NULL)"
)
_IN_SCHEMA = "EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = n.oid)"


def published_tables(connection: psycopg.Connection[Any], publications: Publications) -> list[PublishedTable]:
    """The tables that these publications publish together, in name order, with column lists and row filters.

    Generated columns come from Postgres 18 on only, though 15 names them among the published.

    Raises:
        TableLocked: one of them is being altered, which may take hours: from 16 on the server opens each to list it.
    """
    version = connection.info.server_version
    query = _PUBLISHED.format(
        generated="" if version >= 180000 else "AND a.attgenerated = ''",
        listed="AND a.attname = ANY (t.attnames)" if version >= 150000 else "",
        row_filter="t.rowfilter" if version >= 150000 else "NULL",
        attnames="t.attnames::text[]" if version >= 150000 else "NULL",
        has_list=_HAS_LIST if version >= 150000 else "false",
        by_schema=_IN_SCHEMA if version >= 150000 else "false",
        others=NOT_DDL_TABLE,
    )
    rows: dict[int, list[tuple[Any, ...]]] = {}
    try:
        with waiting_for_locks(connection):
            found = rows_of(connection, query, (list(publications),))
    except TableLocked:
        raise TableLocked(LOCKED) from None
    for row in found:
        rows.setdefault(row[0], []).append(row)
    sent = named_in_stream({oid: of[0][5] for oid, of in rows.items()})
    return [_published(of) for oid, of in rows.items() if oid in sent]


def _published(rows: Sequence[tuple[Any, ...]]) -> PublishedTable:
    oid, namespace, name, identity, partitioned, *_ = rows[0]
    members = tuple(_membership(*row[6:]) for row in rows)
    columns, row_filter = members[0].column_names, row_filter_of(members)
    return PublishedTable(oid, namespace, name, identity, columns, row_filter, partitioned, members)


def _membership(
    publication: str,
    published: Sequence[bool],
    columns: Sequence[str],
    row_filter: str | None,
    listed: Sequence[str] | None,
    has_list: bool,
    is_whole: bool,
) -> Membership:
    operations = tuple(operation for operation, is_there in zip(OPERATIONS, published, strict=True) if is_there)
    names = frozenset(columns if listed is None else listed)
    return Membership(publication, operations, tuple(columns), row_filter, names, has_list, is_whole)


def published_tables_unless_locked(
    connection: psycopg.Connection[Any], publications: Publications
) -> list[PublishedTable] | None:
    """``published_tables``; None where one of the tables is being altered."""
    try:
        return published_tables(connection, publications)
    except TableLocked:
        return None


def storage_of(connection: psycopg.Connection[Any], relation_ids: Iterable[int]) -> list[tuple[Any, ...]]:
    """What ALTER, TRUNCATE and rewrites change of these tables, of their keys and of the partitions below them,
    as the connection's snapshot shows it: compared, it tells whether one of them ran between."""
    query = """
        WITH RECURSIVE tree AS (
          SELECT oid FROM pg_class WHERE oid = ANY (%s)
          UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid
                JOIN pg_class p ON p.oid = t.oid AND p.relkind = 'p')
        SELECT c.oid, c.relname, c.relnamespace, c.relfilenode, c.relreplident,
               (SELECT array_agg(ROW(a.attnum, a.attname, a.atttypid, a.atttypmod)::text ORDER BY a.attnum)
                FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
               (SELECT max(i.indexrelid) FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
        FROM tree t JOIN pg_class c ON c.oid = t.oid ORDER BY c.oid"""
    return rows_of(connection, query, (list(relation_ids),))


def wait_for_alterations(connection: psycopg.Connection[Any], relation_id: int, timeout_s: float = ALTERED_S) -> None:
    """Wait until nobody alters this table, for ``timeout_s`` at most: an ALTER may take hours.

    A commit is in the WAL, and so in the stream, a moment before the catalogue shows it. Its locks go after that.
    """
    altered = (
        "SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = current_database() "
        "AND l.locktype = 'relation' AND l.relation = %s AND l.mode = 'AccessExclusiveLock' AND l.granted"
    )
    deadline = time.monotonic() + timeout_s
    while rows_of(connection, altered, (relation_id,)) and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN_S)


# An anyarray cannot be subscripted, and a box's arrays are not parted by commas; of one element this is its text.
# A partitioned table has no rows, and no value for older ones: those below it have, which are of one value or of none.
MISSING_VALUE = "array_to_string(a.attmissingval, '')"
_TABLES = f"""
    WITH RECURSIVE tree AS (
      SELECT oid AS root, oid FROM pg_class WHERE oid = ANY (%s) AND relkind = 'p'
      UNION SELECT t.root, i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid
            JOIN pg_class p ON p.oid = t.oid AND p.relkind = 'p'),
    below AS (
      SELECT t.root, a.attname, CASE WHEN count(DISTINCT {MISSING_VALUE}) = 1 THEN min({MISSING_VALUE}) END AS value
      FROM tree t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND a.atthasmissing AND NOT a.attisdropped
      GROUP BY 1, 2)
    SELECT (SELECT txid_current_snapshot()::text), c.oid, c.relreplident, c.relnatts, n.nspname, c.relname,
           c.relkind = 'p',
           a.attname, a.atttypid, a.atttypmod, a.attnum, NOT a.attnotnull,
           a.attnum = ANY (k.primary_key), c.relreplident = 'f' OR a.attnum = ANY (k.replica_identity),
           CASE WHEN a.atthasmissing THEN {MISSING_VALUE} ELSE b.value END, a.attgenerated <> ''
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL (
      SELECT coalesce(array_agg(number) FILTER (WHERE i.indisprimary), '{{}}') AS primary_key,
             coalesce(array_agg(number) FILTER (
               WHERE i.indislive AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END
             ), '{{}}') AS replica_identity
      FROM pg_index i CROSS JOIN unnest({INDEX_KEY}) number
      WHERE i.indrelid = c.oid AND i.indimmediate AND i.indisvalid) k
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN below b ON b.root = c.oid AND b.attname = a.attname
    WHERE c.oid = ANY (%s) ORDER BY c.oid, a.attnum"""

_FIRST_OF_COLUMN = 7
"""Which field of such a row is the first that tells of a column."""


def tables_facts(
    connection: psycopg.Connection[Any], relation_ids: Iterable[int]
) -> tuple[dict[int, TableFacts], Snapshot | None]:
    """Facts of those tables that are there, and which transactions they show; None where no table is there."""
    oids = list(relation_ids)
    rows = rows_of(connection, _TABLES, (oids, oids))
    facts: dict[int, TableFacts] = {}
    for oid, group in groupby(rows, key=itemgetter(1)):
        of_table = [*group]
        _, _, identity, *others = of_table[0][:_FIRST_OF_COLUMN]
        columns = (ColumnFacts(*row[_FIRST_OF_COLUMN:]) for row in of_table if row[_FIRST_OF_COLUMN] is not None)
        facts[oid] = TableFacts(identity, tuple(columns), *others)
    return facts, Snapshot.parse(rows[0][0]) if rows else None


def table_facts(connection: psycopg.Connection[Any], relation_id: int) -> TableFacts | None:
    """Columns of a table in attnum order; None when it is gone."""
    return tables_facts(connection, [relation_id])[0].get(relation_id)


def table_names(connection: psycopg.Connection[Any], relation_ids: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Schema and name of those relations that are there."""
    query = """
        SELECT c.oid, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = ANY (%s)"""
    return {oid: (namespace, name) for oid, namespace, name in rows_of(connection, query, (list(relation_ids),))}


MULTIRANGES_SINCE = 140_000
_RANGES_ALONE = "(SELECT r.rngsubtype FROM pg_range r WHERE r.rngtypid = t.oid)"
_RANGES = f"{_RANGES_ALONE}, (SELECT r.rngtypid FROM pg_range r WHERE r.rngmultitypid = t.oid)"
# pg_type also calls int2vector an array; a true one is the array type that its element names.
_TYPES = """
    SELECT t.oid, n.nspname, t.typname, CASE WHEN e.oid IS NOT NULL THEN 'a' ELSE t.typtype::text END,
           ARRAY(SELECT l.enumlabel::text FROM pg_enum l WHERE l.enumtypid = t.oid ORDER BY l.enumsortorder),
           nullif(t.typbasetype, 0), coalesce(e.oid, {ranges}),
           ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE t.typtype = 'c' AND a.attrelid = t.typrelid
                 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
           ARRAY(SELECT a.atttypid FROM pg_attribute a WHERE t.typtype = 'c' AND a.attrelid = t.typrelid
                 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
           t.typtypmod,
           (SELECT x.extname::text FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid
            WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e'
            AND d.refclassid = 'pg_extension'::regclass)
    FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
    LEFT JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
    WHERE t.oid = ANY (%s)"""


def type_facts(connection: psycopg.Connection[Any], type_oids: Iterable[int]) -> dict[int, TypeFacts]:
    """Facts of these types, of the elements and bases they name, and of composites' own user types."""
    facts: dict[int, TypeFacts] = {}
    wanted = set(type_oids)
    asked: set[int] = set()
    query = _TYPES.format(ranges=_RANGES if connection.info.server_version >= MULTIRANGES_SINCE else _RANGES_ALONE)
    while wanted:
        asked |= wanted
        for row in rows_of(connection, query, (sorted(wanted),)):
            oid, namespace, name, kind, labels, base, element, names, oids, typmod, extension = row
            fields = tuple(zip(names, oids, strict=True))
            facts[oid] = TypeFacts(oid, namespace, name, kind, tuple(labels), base, element, fields, typmod, extension)
        wanted = set().union(*map(_named, facts.values())) - asked
    return facts


def types_within(types: Mapping[int, TypeFacts], type_oids: Iterable[int]) -> dict[int, TypeFacts]:
    """The facts that ``type_facts`` would return for these types, taken from known ones."""
    found: dict[int, TypeFacts] = {}
    wanted = set(type_oids)
    while wanted:
        found |= {oid: types[oid] for oid in wanted if oid in types}
        wanted = set().union(*map(_named, found.values())) - found.keys() & types.keys()
    return found


def _named(facts: TypeFacts) -> set[int]:
    fields = {oid for _, oid in facts.fields if oid >= FIRST_USER_OID}
    return fields | {oid for oid in (facts.base_type, facts.element_type) if oid}
