"""What the event triggers tell of a table's columns after a command that altered them, as SQL (``ddl_trigger.py``).

In: a table that a command was about. Out: a row for it and for each table below it, partition or heir, whose columns
this transaction has written: numbers, names, types, and what older rows have in a column that was added. Beside it a
function that reads such rows back, for producers whose stream is still before them.

Nothing is told of a table that was made in the same transaction: its copy tells its columns. ``by`` tells the time of
one trigger and publication from another one's, in which something may have been left untold.
"""

from walbridge.schemas.ddl_row import COLUMNS, DDL_COLUMN, DDL_SCHEMA, DDL_TABLE, FORMAT, TOLD_BY, TOLD_COLUMNS

TELL_COLUMNS = f"{DDL_SCHEMA}.tell_columns"
ROW_BYTES_MAX, VALUE_BYTES_MAX, TABLES_MAX = 262_144, 8_000, 1_000
"""Of a row, without columns if they are more; of one value; of tables below the one that was altered. What is left out
is found as without triggers."""
_UNTOLD = "walbridge.untold"
NOTE_UNTOLD = f"PERFORM set_config('{_UNTOLD}', 'yes', true)"
"""A statement: rows that this transaction adds later say that something before them was not told."""


def _is_own(row: str) -> str:
    """SQL: this transaction, or a savepoint of it, wrote the row of the catalogue."""
    offset = f"(({row}.xmin::text::bigint - first_xid) & 4294967295)"
    return f"CASE WHEN {offset} > own_xids THEN false ELSE txid_status(first_xid + {offset}) = 'in progress' END"


# A transaction with one snapshot for all of it does not see what others altered before it had the table's lock.
_SEES_ALL = "(current_setting('transaction_isolation') LIKE 'read %')"
# A value is of one element, of which array_to_string makes its text. A partitioned table has no rows, and so no value
# of its own: it has that of the tables below it, where all have the same.
_VALUE = "array_to_string(a.attmissingval, '')"
_VALUE_TO_TELL = f"""
                 CASE WHEN pg_column_size(a.attmissingval) <= {VALUE_BYTES_MAX}
                   AND octet_length({_VALUE}) <= {VALUE_BYTES_MAX} THEN {_VALUE} END"""
COLUMNS_BODY = f"""
BEGIN
  INSERT INTO {DDL_SCHEMA}.{DDL_TABLE} ({DDL_COLUMN})
  WITH RECURSIVE tree AS (
    SELECT relation::oid AS oid
    UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid),
  member AS (
    SELECT c.oid, c.relnatts, c.relkind, {_is_own("c")} AS may_have_grown
    FROM (SELECT oid FROM tree LIMIT {TABLES_MAX}) t JOIN pg_class c ON c.oid = t.oid
    WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
    AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = -1 AND {_is_own("a")})
    AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND {_is_own("a")})),
  below AS (
    SELECT a.attname, min({_VALUE_TO_TELL}) AS value,
           count(*) = count({_VALUE_TO_TELL}) AND count(DISTINCT {_VALUE_TO_TELL}) = 1 AS is_one
    FROM tree t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND a.atthasmissing AND NOT a.attisdropped
    WHERE EXISTS (SELECT FROM pg_class c WHERE c.oid = relation AND c.relkind = 'p')
    GROUP BY 1),
  told AS (
    SELECT jsonb_build_object('v', {FORMAT}, 'event', '{COLUMNS}', 'tag', tag, 'relation', m.oid::bigint,
             'count', m.relnatts, 'may_have_grown', m.may_have_grown, 'by', {TOLD_BY},
             'is_untold', coalesce(current_setting('{_UNTOLD}', true) = 'yes', false) OR NOT {_SEES_ALL}) AS head,
           jsonb_build_object('columns', (
               SELECT coalesce(jsonb_agg(jsonb_build_array(a.attnum, a.attname, a.atttypid::bigint, a.atttypmod) || CASE
                 WHEN a.atthasmissing THEN jsonb_build_array({_VALUE_TO_TELL})
                 WHEN m.relkind <> 'p' OR b.attname IS NULL THEN '[]'
                 WHEN m.oid = relation AND b.is_one THEN jsonb_build_array(b.value)
                 ELSE '[null]' END ORDER BY a.attnum), '[]')
               FROM pg_attribute a LEFT JOIN below b ON b.attname = a.attname
               WHERE a.attrelid = m.oid AND a.attnum > 0 AND NOT a.attisdropped),
             'fresh', (SELECT jsonb_agg(a.attnum) FROM pg_attribute a
               WHERE a.attrelid = m.oid AND a.attnum > 0 AND {_is_own("a")})) AS columns
    FROM member m)
  SELECT (head || CASE WHEN {_SEES_ALL} AND octet_length(columns::text) <= {ROW_BYTES_MAX} THEN columns
    ELSE '{{}}' END)::text
  FROM told;
EXCEPTION WHEN OTHERS THEN
  {NOTE_UNTOLD};
  RAISE LOG 'walbridge: columns after % are not told in the stream (%)', tag, SQLSTATE;
END"""
# As a producer's session and a walsender print values (producer/postgres/connection.py, PINNED).
_PRINTED = (
    "SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET timezone = 'UTC' SET extra_float_digits = 3 "
    "SET bytea_output = 'hex' SET lc_monetary = 'C' SET quote_all_identifiers = off"
)
_SAFE = "SET search_path = pg_catalog, pg_temp"
ARGUMENTS = "relation bigint, first_xid bigint, own_xids bigint, tag text"
MAKE_COLUMNS = (
    f"CREATE OR REPLACE FUNCTION {TELL_COLUMNS}({ARGUMENTS}) RETURNS void LANGUAGE plpgsql "
    f"{_SAFE} {_PRINTED} AS $walbridge${COLUMNS_BODY}\n$walbridge$",
    f"REVOKE ALL ON FUNCTION {TELL_COLUMNS} FROM PUBLIC",
    # It says no more than pg_attribute, which everybody may read, said then.
    f"CREATE OR REPLACE FUNCTION {TOLD_COLUMNS}(of_tables bigint[], since bigint, rows_max int) "
    f"RETURNS TABLE (id bigint, told text) LANGUAGE sql STABLE SECURITY DEFINER {_SAFE} AS $walbridge$"
    f"SELECT d.id, d.told FROM {DDL_SCHEMA}.{DDL_TABLE} d WHERE d.id >= since AND CASE "
    f'WHEN strpos(d.told, \'"event": "{COLUMNS}"\') > 0 '
    "THEN (d.told::jsonb ->> 'relation')::bigint = ANY (of_tables) END ORDER BY d.id LIMIT rows_max$walbridge$",
    f"GRANT USAGE ON SCHEMA {DDL_SCHEMA} TO PUBLIC",
    f"GRANT EXECUTE ON FUNCTION {TOLD_COLUMNS} TO PUBLIC",
)
REMOVE_COLUMNS = (
    f"DROP FUNCTION IF EXISTS {TELL_COLUMNS}",
    f"DROP FUNCTION IF EXISTS {TOLD_COLUMNS}",
)
