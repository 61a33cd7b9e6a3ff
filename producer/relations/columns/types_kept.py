"""Which attribute numbers a column may have by its type. Pure.

In: the types that are announced, the numbers that are free for them, the newest version, the catalogue. Out: for each
those that are new, or had this type, or one that Postgres makes it without a rewrite, or have it by now. A rewrite is
noticed by itself, and its table copied.
"""

from collections.abc import Collection, Sequence

from walbridge.producer.postgres.facts import TableFacts
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.pg_types import FIRST_USER_OID

_ALIKE = ({25, 1043}, {23, 26}, {650, 869}, {1114, 1184}, {1560, 1562})
"""Types that ALTER TYPE makes of each other without writing rows anew: text and varchar, integer and oid, inet and
cidr, timestamp with and without time zone under UTC, bit and varbit. Source: PostgreSQL ``pg_cast.dat``,
``timestamp.c``."""


def of_types(
    type_oids: Sequence[int], numbers: Collection[int], facts: TableFacts, newest: RelationRecord
) -> list[set[int]]:
    """For each type those of ``numbers`` that may be of it."""
    before = {each.attnum: each.type_oid for each in newest.table.columns}
    now = {each.attnum: each.type_oid for each in facts.columns}
    found = {
        wanted: {n for n in numbers if now.get(n) == wanted or n not in before or _is_alike(before[n], wanted)}
        for wanted in {*type_oids}
    }
    return [found[wanted] for wanted in type_oids]


def _is_alike(one: int, other: int) -> bool:
    return one == other or max(one, other) >= FIRST_USER_OID or any({one, other} <= each for each in _ALIKE)
