"""What publications are and whom they hold, without touching a table: DDL that waits for a lock blocks nothing here.

In: a connection, the publications' names, relation ids. Out: a ``PublicationState`` that changes
whenever a change of these tables may have been left out of the stream: memberships are rows with
an oid of their own, so a table that left and came back has another, and so has one whose row
filter or column list was set anew. Of several publications a membership also says what each publishes.

What is altered and altered back reads as before, but was written anew: the row of the publication by its options, its
name or its owner, that of a dependency by SET SCHEMA, that of a parent by DETACH and ATTACH. So a membership has the
transactions that wrote these rows (``xmin``) as its version. Vacuum, freezing and VACUUM FULL leave them as they are; a
dump gives other oids; they come again after 2^32 transactions. Rows that name a table are never updated, only deleted
and made again. Where partitions come as their root, a table that is none may have been one meanwhile, and then
each of its columns was written anew: so who wrote its columns, the oldest ones, is in there, too. Source:
publicationcmds.c, pg_depend.c (changeDependencyFor), tablecmds.c (MergeAttributesIntoExisting, RemoveInheritance).
"""

from collections.abc import Iterable

from walbridge.producer.postgres.catalog import Publications, rows_of
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublicationState
from walbridge.producer.postgres.publications.combined_publications import (
    EVERY_TABLE,
    OPERATIONS,
    FoundMember,
    generated_columns_text,
    membership_text,
)
from walbridge.schemas.ddl_row import NOT_DDL_TABLE
from walbridge.schemas.position import Lsn, parse_lsn

_PUBLICATIONS = """
    SELECT pubname, oid, ARRAY[pubinsert, pubupdate, pubdelete, pubtruncate], {generated},
           ROW(oid, xmin)::text, txid_current_snapshot()::text
    FROM pg_publication WHERE pubname = ANY (%s) ORDER BY oid"""
_OTHERS = "SELECT oid, pubname FROM pg_publication WHERE pubname <> ALL (%s)"
_NOW = """
    SELECT pg_current_wal_insert_lsn()::text, txid_snapshot_xmin(txid_current_snapshot()),
           ARRAY(SELECT ROW(oid, xmin)::text FROM pg_publication WHERE pubname = ANY (%s) ORDER BY oid)"""
# A partition is a member by itself or by any of its parents; from Postgres 15 on also by its schema.
_FAMILY = "(SELECT c.oid AS relid UNION SELECT a.relid FROM pg_partition_ancestors(c.oid) a)"
_BY_SCHEMA = f"""
               UNION ALL SELECT s.oid FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid IN (
                 SELECT k.relnamespace FROM pg_class k WHERE k.oid IN (SELECT f.relid FROM {_FAMILY} f))"""
# The stream names a partition or its root. Of the one that it does not name, nothing comes any more.
_BELOW_ROOT = f"""
    p.pubviaroot AND c.relispartition AND (p.puballtables OR EXISTS (
       SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid IN (
         SELECT f.relid FROM {_FAMILY} f WHERE f.relid <> c.oid)) %s), NOT p.pubviaroot AND c.relkind = 'p'"""
_PARENT_BY_SCHEMA = f"""OR EXISTS (
       SELECT FROM pg_publication_namespace s JOIN pg_class k ON k.relnamespace = s.pnnspid
       WHERE s.pnpubid = p.oid AND k.oid IN (SELECT f.relid FROM {_FAMILY} f WHERE f.relid <> c.oid))"""
# Members by their schema have no row of their own. One by its parent's is told by the parents' rows.
_IN_SCHEMA = f"""
                 AND NOT EXISTS (
                   SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace)
               UNION ALL SELECT d.objid, d.xmin FROM {_FAMILY} f CROSS JOIN LATERAL (
                 SELECT d.objid, d.xmin, d.refobjid FROM pg_depend d
                 WHERE d.classid = 'pg_class'::regclass AND d.objid = f.relid AND d.objsubid = 0
                 AND d.refclassid = 'pg_namespace'::regclass OFFSET 0) d
               WHERE d.refobjid IN (SELECT s.pnnspid FROM pg_publication_namespace s WHERE s.pnpubid = p.oid)"""
# ATTACH and DETACH PARTITION write all columns of the table anew, in pg_attribute; what else alters a table leaves one.
_COLUMN_WRITERS_MAX = 8
_COLUMNS = f"""CASE WHEN p.pubviaroot AND NOT c.relispartition THEN '^' || coalesce((
             SELECT string_agg(w.written, ',' ORDER BY w.written) FROM (
               SELECT a.xmin::text AS written FROM pg_attribute a
               WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
               GROUP BY a.xmin::text ORDER BY max(age(a.xmin)) DESC LIMIT {_COLUMN_WRITERS_MAX}) w), '') ELSE '' END"""
_MEMBERS = f"""
    SELECT c.oid, n.nspname, c.relname, p.oid, CASE WHEN p.puballtables THEN '{EVERY_TABLE}' ELSE (
             SELECT string_agg(m.oid::text, '+' ORDER BY m.oid) FROM (
               SELECT r.oid FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid IN (
                 SELECT f.relid FROM {_FAMILY} f)
               %s) m) END, %s, concat_ws('+', p.xmin, CASE WHEN NOT p.puballtables THEN (
             SELECT string_agg(w.written::text, '+' ORDER BY w.relid, w.written::text) FROM (
               SELECT i.inhrelid AS relid, i.xmin AS written FROM pg_inherits i
               WHERE c.relispartition AND i.inhrelid IN (SELECT f.relid FROM {_FAMILY} f) AND NOT EXISTS (
                 SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid)
               %s) w) END) || %s
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN pg_publication p
    WHERE p.pubname = ANY (%%s) AND c.oid = ANY (%%s) AND c.relpersistence = 'p'"""


_APPEARED = """
    SELECT DISTINCT c.oid FROM pg_class c CROSS JOIN pg_publication p JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE p.pubname = ANY (%s) AND c.oid <> ALL (%s) AND c.oid >= 16384 AND c.relkind IN ('r', 'p')
    AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND {others} AND {whole} AND (p.puballtables OR EXISTS (
      SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid IN (SELECT f.relid FROM {family} f))
      {by_schema})"""
_WHOLE = "(CASE WHEN p.pubviaroot THEN NOT (p.puballtables AND c.relispartition) ELSE c.relkind = 'r' END)"
_SCHEMA_HAS_IT = """
      OR EXISTS (SELECT FROM pg_publication_namespace s JOIN pg_class k ON k.relnamespace = s.pnnspid
                 WHERE s.pnpubid = p.oid AND k.oid IN (SELECT f.relid FROM {family} f))"""


def new_members(connection: SqlConnection, publications: Publications, relation_ids: Iterable[int]) -> set[int]:
    """Relations of the publications that are not among these; also partitions that are published as their root only.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    version = connection.info.server_version
    by_schema = _SCHEMA_HAS_IT.format(family=_FAMILY) if version >= 150000 else ""
    whole = _WHOLE if version >= 130000 else "c.relkind = 'r'"
    query = _APPEARED.format(family=_FAMILY, by_schema=by_schema, whole=whole, others=NOT_DDL_TABLE)
    return {relation_id for (relation_id,) in rows_of(connection, query, (list(publications), list(relation_ids)))}


def publication_state(
    connection: SqlConnection, publications: Publications, relation_ids: Iterable[int]
) -> PublicationState:
    """The publications as of now, as far as they are there.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    version = connection.info.server_version
    by_schema = (_BY_SCHEMA, _PARENT_BY_SCHEMA, _IN_SCHEMA) if version >= 150000 else ("", "", "")
    below_root = _BELOW_ROOT % by_schema[1] if version >= 130000 else "false, false"
    columns = _COLUMNS if version >= 130000 else "''"
    own = _PUBLICATIONS.format(generated="pubgencols::text" if version >= 180000 else "'n'")
    names, relation_ids = list(publications), list(relation_ids)
    there = rows_of(connection, own, (names,))
    found = rows_of(connection, _MEMBERS % (by_schema[0], below_root, by_schema[2], columns), (names, relation_ids))
    ((lsn, oldest_xid, written_by_now),) = rows_of(connection, _NOW, (names,))
    if written_by_now != [written for *_, written, _ in there]:
        # One was altered, dropped or made again between: members of one are no members of the other.
        return publication_state(connection, publications, relation_ids)
    operations = {
        oid: tuple(name for name, is_there in zip(OPERATIONS, published, strict=True) if is_there)
        for _, oid, published, *_ in there
    }
    members: dict[int, list[FoundMember]] = {}
    for relation_id, _, _, oid, *how in found:
        if oid in operations:
            members.setdefault(relation_id, []).append(FoundMember(oid, operations[oid], *how))
    texts = {each: membership_text(of, is_single=len(names) == 1) for each, of in members.items()}
    return PublicationState(
        oids={name: oid for name, oid, *_ in there},
        missing_operations=tuple(name for name in OPERATIONS if not any(name in of for of in operations.values())),
        members={each: text for each, text in texts.items() if text is not None},
        lsn=Lsn(parse_lsn(lsn)),
        generated_columns=generated_columns_text({oid: kind for _, oid, _, kind, *_ in there}),
        oldest_xid=oldest_xid,
        names={each: (namespace, name) for each, namespace, name, *_ in found},
        snapshot=there[0][-1] if there else "",
        others={} if len(there) == len(set(names)) else dict(rows_of(connection, _OTHERS, (names,))),
    )


def with_generated_columns(connection: SqlConnection, relation_ids: Iterable[int]) -> list[int]:
    """Those of these relations that have stored generated columns.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    query = (
        "SELECT DISTINCT attrelid FROM pg_attribute WHERE attrelid = ANY (%s) AND attgenerated = 's' "
        "AND NOT attisdropped ORDER BY 1"
    )
    return [relation_id for (relation_id,) in rows_of(connection, query, (list(relation_ids),))]


def publications_named(connection: SqlConnection, names: Publications) -> dict[str, int]:
    """Their ids, by name, of those that are there.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    query = "SELECT pubname, oid FROM pg_publication WHERE pubname = ANY (%s)"
    return {str(name): int(oid) for name, oid in rows_of(connection, query, ([*names],))}


def next_xid(connection: SqlConnection) -> int:
    """An xid above those of all transactions that have written until now.

    It is taken from the server, which puts it into the WAL: not to be asked now and then. The xmax of a snapshot is
    below it, and below those of transactions that have begun since the last one ended.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    ((xid,),) = rows_of(connection, "SELECT txid_current()")
    return int(xid)


def snapshot_xmax(connection: SqlConnection) -> int:
    """The xmax of a snapshot, for callers that must not assign an xid. Running transactions may have xids above it.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    ((xid,),) = rows_of(connection, "SELECT txid_snapshot_xmax(txid_current_snapshot())")
    return int(xid)


def insert_lsn(connection: SqlConnection) -> Lsn:
    """The server's WAL insert position: the commits of all that is visible now lie before it.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    ((lsn,),) = rows_of(connection, "SELECT pg_current_wal_insert_lsn()::text")
    return Lsn(parse_lsn(lsn))
