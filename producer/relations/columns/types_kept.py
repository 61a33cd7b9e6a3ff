"""Which attribute numbers a column may have, going by its type. Pure.

In: the announced types, the candidate numbers, the newest version, the catalogue. Out: for each type the numbers that
are new, that had this type or one that Postgres converts to it without a rewrite, or that have it now. A conversion
with a rewrite is noticed elsewhere, and its table copied.
"""

from collections.abc import Collection, Sequence

from walbridge.producer.postgres.facts import TableFacts
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.pg_types import FIRST_USER_OID

_ALIKE = ({25, 1043}, {23, 26}, {650, 869}, {1114, 1184}, {1560, 1562})
"""Types that ALTER TYPE makes of each other without writing rows anew: text and varchar, integer and oid, inet and
cidr, timestamp with and without time zone under UTC, bit and varbit. Source: PostgreSQL ``pg_cast.dat``,
``timestamp.c``."""


def numbers_of_types(
    type_oids: Sequence[int], numbers: Collection[int], facts: TableFacts, newest: RelationRecord
) -> list[set[int]]:
    """For each of the types, those of ``numbers`` whose column may have it."""
    before = {each.attnum: each.type_oid for each in newest.table.columns}
    now = {each.attnum: each.type_oid for each in facts.columns}
    found = {
        wanted: {n for n in numbers if now.get(n) == wanted or n not in before or _is_alike(before[n], wanted)}
        for wanted in {*type_oids}
    }
    return [found[wanted] for wanted in type_oids]


def _is_alike(one: int, other: int) -> bool:
    return one == other or max(one, other) >= FIRST_USER_OID or any({one, other} <= each for each in _ALIKE)
