"""The event triggers that write DDL into the stream as rows: how they are made, removed and found.

In: an administrator's connection. Out: in the schema ``walbridge`` a table and a function, three event triggers, and a
publication of the table's inserts, of which a producer asks (``schemas/ddl_row.py``). One of each serves all pipelines
of a database.

No DDL fails or waits for it: whatever goes wrong inside is caught, and said in the server's log; a lock is waited for a
second at most. The function runs as its owner, with a search path of its own. The table keeps a day of rows, which are
deleted now and then by who adds one, past rows that another deletes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import psycopg

from walbridge.ddl_trigger_columns import COLUMNS_BODY, MAKE_COLUMNS, NOTE_UNTOLD, REMOVE_COLUMNS, TELL_COLUMNS
from walbridge.producer.postgres.catalog import rows_of
from walbridge.schemas.ddl_row import DDL_COLUMN, DDL_PUBLICATION, DDL_SCHEMA, DDL_TABLE, END_TRIGGER, FORMAT
from walbridge.schemas.errors import OperatorError

TRIGGERS = {
    "ddl_command_end": END_TRIGGER,
    "sql_drop": "walbridge_ddl_drop",
    "table_rewrite": "walbridge_ddl_rewrite",
}
_TABLE = f"{DDL_SCHEMA}.{DDL_TABLE}"
_FUNCTION = f"{DDL_SCHEMA}.tell_ddl"

_TYPES = """(
               SELECT coalesce(jsonb_agg(jsonb_build_array(a.attnum, a.atttypid::bigint, a.atttypmod)), '[]')
               FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)"""

_MADE_CASTS = """(
               SELECT coalesce(jsonb_agg(jsonb_build_array(k.castsource::bigint, k.casttarget::bigint)), '[]')
               FROM pg_cast k WHERE k.oid >= 16384 AND k.casttarget IN (
                 SELECT unnest(ARRAY[t.oid, t.typelem]) FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped))"""


def _word(text: str) -> str:
    """A pattern for a keyword in letters of any case, where names beside it are not."""
    return "".join(f"[{letter.upper()}{letter}]" for letter in text)


_TYPE = rf"(\w+(?:\s+(?:{_word('precision')}|{_word('varying')}))?(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?(?:\s*\[\s*\])*)"
# As many tools write it: TYPE bigint USING "c"::bigint, which is what Postgres does by itself. Column and type have to
# be spelled alike in both places: "user" is a column, and user is none.
_CAST = rf"(?:\1\s*::\s*\2|{_word('cast')}\s*\(\s*\1\s+{_word('as')}\s+\2\s*\))"
_CAST_TO_ITSELF = (
    rf"\m{_word('alter')}\s+(?:{_word('column')}\s+)?([A-Za-z_][\w$]*|\"(?:[^\"]|\"\")+\")\s+"
    rf"(?:{_word('set')}\s+{_word('data')}\s+)?{_word('type')}\s+{_TYPE}\s+{_word('using')}\s+"
    rf"(?:{_CAST}|\(\s*{_CAST}\s*\))(?=\s*(?:,|;|$))"
)
# A command is plain where its own text is all that there is: one ALTER TABLE, which no function runs, and no USING but
# such casts. What stands in a comment could look like one of them.
_IS_PLAIN = rf"""context !~ '\n' AND current_query() ~* '^\s*alter\s+table\s[^;]*;?\s*$'
             AND (current_query() !~* 'using' OR (current_query() !~ '--|/[*]'
               AND regexp_replace(current_query(), '{_CAST_TO_ITSELF}', '', 'g') !~* 'using'))"""
# What a transaction wrote to the catalogue has its xid, or that of a savepoint: no lower than the transaction's own, no
# higher than that of the row that was just added, and in progress though it is visible.
_BODY = f"""
DECLARE
  tables bigint[];
  relation bigint;
  first_xid bigint := txid_current();
  own_xids bigint;
  added_id bigint;
  came jsonb;
  went jsonb;
  context text;
BEGIN
  IF TG_EVENT = 'table_rewrite' THEN
    GET DIAGNOSTICS context = PG_CONTEXT;
    INSERT INTO {_TABLE} ({DDL_COLUMN})
    SELECT jsonb_build_object('v', {FORMAT}, 'event', TG_EVENT, 'tag', TG_TAG, 'relation', c.oid::bigint,
             'file', c.relfilenode::bigint, 'reason', pg_event_trigger_table_rewrite_reason(),
             'is_plain', {_IS_PLAIN}, 'types', {_TYPES}, 'made_casts', {_MADE_CASTS}, 'ancestors', (
               SELECT coalesce(jsonb_agg(a.relid::oid::bigint), '[]') FROM pg_partition_ancestors(c.oid) a
               WHERE a.relid <> c.oid))
    FROM pg_class c
    WHERE c.oid = pg_event_trigger_table_rewrite_oid() AND c.relkind = 'r' AND c.relpersistence <> 't'
    RETURNING id INTO added_id;
  ELSIF TG_EVENT = 'sql_drop' THEN
    SELECT array_agg(d.objid::bigint) INTO tables FROM pg_event_trigger_dropped_objects() d
    WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND d.object_type IN ('table', 'foreign table')
    AND NOT d.is_temporary;
    IF tables IS NOT NULL THEN
      INSERT INTO {_TABLE} ({DDL_COLUMN})
      VALUES (jsonb_build_object('v', {FORMAT}, 'event', TG_EVENT, 'tag', TG_TAG, 'relations', to_jsonb(tables)))
      RETURNING id INTO added_id;
    END IF;
  ELSE
    FOR relation IN
      SELECT DISTINCT c.oid::bigint FROM pg_event_trigger_ddl_commands() d
      JOIN pg_class c ON c.oid = d.objid OR c.reloftype = (SELECT o.reltype FROM pg_class o WHERE o.oid = d.objid)
      WHERE d.classid = 'pg_class'::regclass AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
    LOOP
      INSERT INTO {_TABLE} ({DDL_COLUMN})
      SELECT jsonb_build_object('v', {FORMAT}, 'event', TG_EVENT, 'tag', TG_TAG, 'relation', relation,
               'file', c.relfilenode::bigint, 'types', {_TYPES})
      FROM pg_class c WHERE c.oid = relation
      RETURNING id, (xmin::text::bigint - first_xid) & 4294967295 INTO added_id, own_xids;
      PERFORM {TELL_COLUMNS}(relation, first_xid, own_xids, TG_TAG);
      CONTINUE WHEN NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = relation AND c.relkind = 'p');
      SELECT jsonb_agg(jsonb_build_object('relation', i.inhrelid::bigint, 'is_empty', NOT EXISTS (
               SELECT FROM pg_partition_tree(i.inhrelid) t JOIN pg_class k ON k.oid = t.relid
               WHERE k.relkind <> 'p' AND coalesce(pg_relation_size(k.oid), 1) > 0)))
      INTO came FROM pg_inherits i
      WHERE i.inhparent = relation AND CASE
        WHEN (i.xmin::text::bigint - first_xid) & 4294967295 > own_xids THEN false
        ELSE txid_status(first_xid + ((i.xmin::text::bigint - first_xid) & 4294967295)) = 'in progress' END;
      SELECT jsonb_agg(c.oid::bigint) INTO went FROM pg_class c
      WHERE c.relkind IN ('r', 'p', 'f') AND NOT c.relispartition AND c.oid <> relation AND CASE
        WHEN (c.xmin::text::bigint - first_xid) & 4294967295 > own_xids THEN false
        ELSE txid_status(first_xid + ((c.xmin::text::bigint - first_xid) & 4294967295)) = 'in progress' END;
      CONTINUE WHEN came IS NULL AND went IS NULL;
      INSERT INTO {_TABLE} ({DDL_COLUMN})
      SELECT jsonb_build_object('v', {FORMAT}, 'event', 'partitions', 'tag', TG_TAG, 'relation', relation,
               'attached', coalesce(came, '[]'), 'detached', coalesce(went, '[]'), 'ancestors', (
                 SELECT coalesce(jsonb_agg(a.relid::oid::bigint), '[]') FROM pg_partition_ancestors(relation::oid) a
                 WHERE a.relid <> relation::oid));
    END LOOP;
  END IF;
  IF added_id % 17 = 0 AND current_setting('transaction_isolation') = 'read committed' THEN
    DELETE FROM {_TABLE} WHERE id IN (
      SELECT id FROM {_TABLE} WHERE told_at < clock_timestamp() - interval '1 day' ORDER BY id LIMIT 1000
      FOR UPDATE SKIP LOCKED);
  END IF;
EXCEPTION WHEN OTHERS THEN
  {NOTE_UNTOLD};
  RAISE LOG 'walbridge: % is not told in the stream (%)', TG_TAG, SQLSTATE;
END"""

# The function runs as its owner: nobody else may have made what it writes to, with triggers of his own.
_REFUSE_FOREIGN = f"""DO $walbridge$ BEGIN
  IF EXISTS (
    SELECT FROM pg_catalog.pg_namespace n
    LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = '{DDL_TABLE}'
    JOIN pg_catalog.pg_roles r ON r.oid IN (n.nspowner, c.relowner)
    WHERE n.nspname = '{DDL_SCHEMA}' AND r.rolname <> current_user AND NOT r.rolsuper)
  THEN RAISE EXCEPTION 'schema {DDL_SCHEMA}, or a table of this name in it, belongs to another role';
  END IF;
END $walbridge$"""
_MAKE = (
    f"CREATE SCHEMA IF NOT EXISTS {DDL_SCHEMA}",
    _REFUSE_FOREIGN,
    f"CREATE TABLE IF NOT EXISTS {_TABLE} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    f"told_at timestamptz NOT NULL DEFAULT clock_timestamp(), {DDL_COLUMN} text NOT NULL)",
    f"CREATE OR REPLACE FUNCTION {_FUNCTION}() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER "
    f"SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $walbridge${_BODY}\n$walbridge$",
    f"REVOKE ALL ON FUNCTION {_FUNCTION}() FROM PUBLIC",
    *MAKE_COLUMNS,
    *(
        statement
        for event, name in TRIGGERS.items()
        for statement in (
            f"DROP EVENT TRIGGER IF EXISTS {name}",
            f"CREATE EVENT TRIGGER {name} ON {event} "
            + ("WHEN TAG IN ('ALTER TABLE', 'ALTER TYPE') " if event == "ddl_command_end" else "")
            + f"EXECUTE FUNCTION {_FUNCTION}()",
            f"ALTER EVENT TRIGGER {name} ENABLE ALWAYS",
        )
    ),
)
_PUBLISH = f"CREATE PUBLICATION {DDL_PUBLICATION} FOR TABLE {_TABLE} WITH (publish = 'insert')"
_REMOVE = (
    *(f"DROP EVENT TRIGGER IF EXISTS {name}" for name in TRIGGERS.values()),
    f"DROP PUBLICATION IF EXISTS {DDL_PUBLICATION}",
    f"DROP FUNCTION IF EXISTS {_FUNCTION}()",
    *REMOVE_COLUMNS,
    f"DROP TABLE IF EXISTS {_TABLE}",
    f"""DO $walbridge$ BEGIN
  DROP SCHEMA IF EXISTS {DDL_SCHEMA};
EXCEPTION WHEN dependent_objects_still_exist THEN NULL;
END $walbridge$""",
)
_STANDING = """
SELECT ARRAY(SELECT evtname::text FROM pg_event_trigger WHERE evtname = ANY (%s) AND evtenabled = 'A'),
       EXISTS (SELECT FROM pg_publication WHERE pubname = %s),
       EXISTS (SELECT FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
               JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE p.pubname = %s AND p.pubinsert AND (n.nspname, c.relname) = (%s, %s)),
       (SELECT count(*) = 2 FROM pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace
        WHERE n.nspname || '.' || f.proname IN (%s, %s) AND f.prosrc IN (%s, %s))"""
_FOR_ALL = "SELECT pubname::text FROM pg_publication WHERE puballtables AND pubinsert ORDER BY 1"
_OTHER_SLOTS = """
SELECT slot_name::text FROM pg_replication_slots
WHERE plugin = 'pgoutput' AND database = current_database() AND slot_name <> %s ORDER BY 1"""


@dataclass(frozen=True, slots=True)
class DdlTriggerState:
    """What exists on the server. ``missing``: event triggers that do not exist or are not ENABLE ALWAYS.
    ``is_published``: whether the publication publishes our table. ``is_of_this_version``: the functions are those that
    this version makes."""

    missing: tuple[str, ...]
    has_publication: bool
    is_published: bool
    is_of_this_version: bool = True

    @property
    def is_absent(self) -> bool:
        """Whether nothing of it exists: DDL is not meant to be told here."""
        return not self.has_publication and len(self.missing) == len(TRIGGERS)

    @property
    def is_whole(self) -> bool:
        """Whether all of it exists, so that DDL is told."""
        return self.is_published and not self.missing


def ddl_trigger_state(connection: psycopg.Connection[Any]) -> DdlTriggerState:
    """Ask the server which parts exist.

    Raises:
        RetryableError, OperatorError: the server is away or refuses.
    """
    names = DDL_PUBLICATION, DDL_PUBLICATION, DDL_SCHEMA, DDL_TABLE
    functions = _FUNCTION, TELL_COLUMNS, f"{_BODY}\n", f"{COLUMNS_BODY}\n"
    ((enabled, *others),) = rows_of(connection, _STANDING, ([*TRIGGERS.values()], *names, *functions))
    return DdlTriggerState(tuple(sorted({*TRIGGERS.values()} - {*enabled})), *others)


def make_sql() -> str:
    """The SQL that makes all of it, for an administrator; it also replaces the function of an earlier version."""
    publish = f"""DO $walbridge$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = '{DDL_PUBLICATION}')
  THEN {_PUBLISH};
  END IF;
END $walbridge$"""
    head = f"""\
-- Tells DDL in the stream. Run it as a superuser, or as the provider's administrator.
-- Publications FOR ALL TABLES publish {_TABLE}, too: a native subscriber of one needs that table before."""
    return _script(head, [*_MAKE, publish])


def remove_sql() -> str:
    """The SQL that removes all of it."""
    return _script("-- DDL is told no more. Run it as who made it.", _REMOVE)


def _script(head: str, statements: Iterable[str]) -> str:
    return "\n".join([head, "BEGIN;", *(f"{each};" for each in statements), "COMMIT;"])


def make(connection: psycopg.Connection[Any], say: Callable[[str], None]) -> None:
    """Make the parts that are missing, in the transaction that is open. An existing publication is not made again:
    producers would take it for another one.

    Raises:
        psycopg.Error: this role may not do it.
    """
    found = ddl_trigger_state(connection)
    for statement in _MAKE:
        connection.execute(statement.encode())
    if not found.has_publication:
        connection.execute(_PUBLISH.encode())
    say("DDL is told in the stream" + (" as before" if found.is_whole else "; a running producer notices it"))


def remove(connection: psycopg.Connection[Any], say: Callable[[str], None]) -> None:
    """Remove all of it, in the transaction that is open. Raises as ``make``."""
    is_absent = ddl_trigger_state(connection).is_absent
    for statement in _REMOVE:
        connection.execute(statement.encode())
    say("DDL was not told in the stream" if is_absent else "DDL is told in the stream no more")


def refuse_other_subscribers(connection: psycopg.Connection[Any], own_slot: str) -> None:
    """Refuse to add a table to publications of all tables that others replicate: a subscriber without the table stops.

    Raises:
        OperatorError: there are such publications, and slots of others that may read them.
    """
    publications = [name for (name,) in rows_of(connection, _FOR_ALL)]
    slots = [name for (name,) in rows_of(connection, _OTHER_SLOTS, (own_slot,))]
    if publications and slots:
        raise OperatorError(
            f"the table {_TABLE} would come to publications FOR ALL TABLES ({', '.join(publications)}), and other "
            f"slots may read them ({', '.join(slots)}): a subscriber without such a table stops",
            remedy=f"make the table on the subscribers first: CREATE SCHEMA {DDL_SCHEMA}; CREATE TABLE {_TABLE} "
            f"(id bigint PRIMARY KEY, told_at timestamptz, {DDL_COLUMN} text); then, or where these slots are other "
            "pipelines', say --force",
        )
