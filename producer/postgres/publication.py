"""What the publication is and whom it holds, without touching a table: DDL that waits for a lock blocks nothing here.

In: a connection, the publication's name, relation ids. Out: a ``PublicationState`` that changes
whenever a change of these tables may have been left out of the stream: memberships are rows with
an oid of their own, so a table that left and came back has another, and so has one whose row
filter or column list was set anew.
"""

from collections.abc import Iterable

from walbridge.producer.postgres.catalog import rows_of
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublicationState
from walbridge.schemas.position import Lsn, parse_lsn

EVERY_TABLE, NAMED_OTHERWISE = "*", "as another"
_OPERATIONS = ("insert", "update", "delete", "truncate")
_PUBLICATION = """
    SELECT oid, pubinsert, pubupdate, pubdelete, pubtruncate, {generated}, txid_current_snapshot()::text
    FROM pg_publication WHERE pubname = %s"""
_NOW = """
    SELECT pg_current_wal_insert_lsn()::text, txid_snapshot_xmin(txid_current_snapshot()),
           (SELECT oid FROM pg_publication WHERE pubname = %s)"""
# A partition is a member by itself or by any of its parents; from Postgres 15 on also by its schema.
_FAMILY = "(SELECT c.oid AS relid UNION SELECT a.relid FROM pg_partition_ancestors(c.oid) a)"
_BY_SCHEMA = f"""
               UNION ALL SELECT s.oid FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid IN (
                 SELECT k.relnamespace FROM pg_class k WHERE k.oid IN (SELECT f.relid FROM {_FAMILY} f))"""
# The stream names a partition or its root. Of the one that it does not name, nothing comes any more.
_NAMED_OTHERWISE = f"""
    (CASE WHEN p.pubviaroot THEN c.relispartition AND (p.puballtables OR EXISTS (
       SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid IN (
         SELECT f.relid FROM {_FAMILY} f WHERE f.relid <> c.oid)) %s) ELSE c.relkind = 'p' END)"""
_PARENT_BY_SCHEMA = f"""OR EXISTS (
       SELECT FROM pg_publication_namespace s JOIN pg_class k ON k.relnamespace = s.pnnspid
       WHERE s.pnpubid = p.oid AND k.oid IN (SELECT f.relid FROM {_FAMILY} f WHERE f.relid <> c.oid))"""
_MEMBERS = f"""
    SELECT c.oid, n.nspname, c.relname,
           CASE WHEN %s THEN '{NAMED_OTHERWISE}' WHEN p.puballtables THEN '{EVERY_TABLE}' ELSE (
             SELECT string_agg(m.oid::text, '+' ORDER BY m.oid) FROM (
               SELECT r.oid FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid IN (
                 SELECT f.relid FROM {_FAMILY} f)
               %s) m) END
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN pg_publication p
    WHERE p.pubname = %%s AND c.oid = ANY (%%s) AND c.relpersistence = 'p'"""


_APPEARED = """
    SELECT c.oid FROM pg_class c CROSS JOIN pg_publication p JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE p.pubname = %s AND c.oid <> ALL (%s) AND c.oid >= 16384 AND c.relkind IN ('r', 'p')
    AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND {whole} AND (p.puballtables OR EXISTS (
      SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid IN (SELECT f.relid FROM {family} f))
      {by_schema})"""
_WHOLE = "(CASE WHEN p.pubviaroot THEN NOT (p.puballtables AND c.relispartition) ELSE c.relkind = 'r' END)"
_SCHEMA_HAS_IT = """
      OR EXISTS (SELECT FROM pg_publication_namespace s JOIN pg_class k ON k.relnamespace = s.pnnspid
                 WHERE s.pnpubid = p.oid AND k.oid IN (SELECT f.relid FROM {family} f))"""


def other_members(connection: SqlConnection, publication: str, relation_ids: Iterable[int]) -> set[int]:
    """Relations of the publication beside these; also partitions that are published as a part of their root only.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    version = connection.info.server_version
    by_schema = _SCHEMA_HAS_IT.format(family=_FAMILY) if version >= 150000 else ""
    whole = _WHOLE if version >= 130000 else "c.relkind = 'r'"
    query = _APPEARED.format(family=_FAMILY, by_schema=by_schema, whole=whole)
    return {relation_id for (relation_id,) in rows_of(connection, query, (publication, list(relation_ids)))}


def publication_state(
    connection: SqlConnection, publication: str, relation_ids: Iterable[int]
) -> PublicationState | None:
    """The publication as of now; None where there is none.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    version = connection.info.server_version
    by_schema = (_PARENT_BY_SCHEMA, _BY_SCHEMA) if version >= 150000 else ("", "")
    otherwise = _NAMED_OTHERWISE % by_schema[0] if version >= 130000 else "false"
    members = _MEMBERS % (otherwise, by_schema[1])
    own = _PUBLICATION.format(generated="pubgencols::text" if version >= 180000 else "'n'")
    if not (there := rows_of(connection, own, (publication,))):
        return None
    relation_ids = list(relation_ids)
    found = rows_of(connection, members, (publication, relation_ids))
    ((oid, *published, generated, snapshot),) = there
    ((lsn, oldest_xid, oid_by_now),) = rows_of(connection, _NOW, (publication,))
    if oid_by_now != oid:  # it was dropped or made again between: members of one are no members of the other
        return publication_state(connection, publication, relation_ids)
    missing = tuple(name for name, is_there in zip(_OPERATIONS, published, strict=True) if not is_there)
    in_it = {each: token for each, _, _, token in found if token}
    names = {each: (namespace, name) for each, namespace, name, _ in found}
    return PublicationState(oid, missing, in_it, Lsn(parse_lsn(lsn)), generated, oldest_xid, names, snapshot)


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


def next_xid(connection: SqlConnection) -> int:
    """An xid above those of all transactions that have written until now.

    It is taken from the server, which puts it into the WAL: not to be asked now and then. The xmax of a snapshot is
    below it, and below those of transactions that have begun since the last one ended.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    ((xid,),) = rows_of(connection, "SELECT txid_current()")
    return int(xid)


def insert_lsn(connection: SqlConnection) -> Lsn:
    """All that is visible by now is below it.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    ((lsn,),) = rows_of(connection, "SELECT pg_current_wal_insert_lsn()::text")
    return Lsn(parse_lsn(lsn))
