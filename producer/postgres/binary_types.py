"""What a type's binary format depends on, from the catalogue: its functions and its elements.

In: type oids. Out: facts of these and of all types that they hold. The catalogue says *now*; arrays
and composites tell their elements' types themselves, and functions of a type hardly ever change.
"""

from collections.abc import Iterable

from walbridge.producer.encoding.binary.types import BinaryFacts
from walbridge.producer.postgres.catalog import rows_of
from walbridge.producer.postgres.connection import SqlConnection

# Functions below 16384 came with the server. pg_type also gives fixed-length types an element.
_TYPES = """
    SELECT t.oid, format_type(t.oid, NULL), t.typdelim::text,
           o.proname::text, {owner_of_output}, s.proname::text, {owner_of_send},
           nullif(t.typelem, 0), nullif(t.typbasetype, 0), coalesce(r.rngsubtype, m.rngtypid),
           ARRAY(SELECT a.atttypid FROM pg_attribute a WHERE t.typtype = 'c' AND a.attrelid = t.typrelid
                 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)
    FROM pg_type t
    JOIN pg_proc o ON o.oid = t.typoutput
    LEFT JOIN pg_proc s ON s.oid = t.typsend
    LEFT JOIN pg_range r ON r.rngtypid = t.oid
    LEFT JOIN pg_range m ON m.rngmultitypid = t.oid
    WHERE t.oid = ANY (%s)"""
_OWNER = """
    CASE WHEN {0}.oid < 16384 THEN '' ELSE coalesce((
      SELECT x.extname::text FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid
      WHERE d.classid = 'pg_proc'::regclass AND d.objid = {0}.oid AND d.deptype = 'e'
      AND d.refclassid = 'pg_extension'::regclass), '?') END"""
_QUERY = _TYPES.format(owner_of_output=_OWNER.format("o"), owner_of_send=_OWNER.format("s"))


def binary_facts(connection: SqlConnection, type_oids: Iterable[int]) -> dict[int, BinaryFacts]:
    """Facts of these types, of their elements, bases, fields and bounds; of Postgres 14 or newer."""
    facts: dict[int, BinaryFacts] = {}
    wanted = set(type_oids)
    asked: set[int] = set()
    while wanted:
        asked |= wanted
        rows = rows_of(connection, _QUERY, (sorted(wanted),))
        for oid, name, delimiter, output, owner, send, sender, element, base, subtype, fields in rows:
            sends = None if send is None else (sender, send)
            facts[oid] = BinaryFacts(
                oid, name, (owner, output), sends, element, base, subtype, tuple(fields), delimiter
            )
        wanted = set().union(*map(_held, facts.values())) - asked
    return facts


def _held(facts: BinaryFacts) -> set[int]:
    return {oid for oid in (facts.element, facts.base, facts.subtype, *facts.fields) if oid}
