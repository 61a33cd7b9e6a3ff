"""The schema of a table: what the stream announces of it, with what only the catalogue and earlier versions tell. Pure.

In: a Relation message, the catalogue's facts, the versions that were recorded of the table. Out: ``TableSchema``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres.facts import PublishedTable, TableFacts
from walbridge.producer.relations.column_matching import numbers_of
from walbridge.producer.relations.columns.catalogue_key import catalogue_key
from walbridge.producer.relations.columns.known_columns import KnownColumns, Numbers
from walbridge.producer.relations.columns.told_columns import NumberedColumns
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.pg_types import BUILTIN_NAMES, FIRST_USER_OID, TypeFacts, column_type, domain_base
from walbridge.schemas.table_schema import Column, TableSchema

IDENTITY_IN_STREAM = frozenset("di")
"""Replica identities of which the stream flags the key's columns: old rows have only these."""


def announced(table: PublishedTable, facts: TableFacts) -> Relation:
    """The Relation message that the stream would send for a table now; for the first copy."""
    by_name = {column.name: column for column in facts.columns}
    published = set(table.column_names)
    columns = tuple(
        RelationColumn(column.in_replica_identity, column.name, column.type_oid, column.typmod)
        for column in facts.columns
        if column.name in published
    )
    assert published <= by_name.keys()
    return Relation(table.relation_id, table.namespace, table.name, facts.replica_identity, columns)


def describe(
    relation: Relation,
    facts: TableFacts | None,
    types: Mapping[int, TypeFacts],
    versions: Sequence[RelationRecord] = (),
    *,
    is_of_catalogue: bool = False,
    told: NumberedColumns | None = None,
) -> TableSchema:
    """The schema of an announced relation.

    The key: what the stream flags under identity DEFAULT and USING INDEX, since old tuples hold
    no more; the catalogue's primary key under FULL and NOTHING; else none.
    Catalogue facts count only for columns that it still describes as announced.

    Args:
        versions: what was recorded of it, oldest first; none for a first copy.
        is_of_catalogue: the relation was made of these facts, so that its columns have the numbers that stand there.
        told: the numbers, where event triggers tell them, and what older rows have in these columns.
    """
    known = KnownColumns(relation, facts, versions)
    numbers: Numbers = [*told.numbers] if told is not None else known.by_name if is_of_catalogue else numbers_of(known)
    values = {} if told is None else told.missing_values
    in_stream = relation.replica_identity in IDENTITY_IN_STREAM
    key = () if in_stream else catalogue_key(relation, facts, numbers, versions)
    columns = []
    for column, number, described in zip(relation.columns, numbers, known.described, strict=True):
        fact = described if described is not None and described.attnum == number else None
        typed = _typed(column, types, versions)
        columns.append(
            replace(
                typed,
                in_replica_identity=column.in_replica_identity,
                is_key=column.in_replica_identity if in_stream else column.name in key,
                attnum=number,
                nullable=fact.nullable if fact else None,
                missing_value=_missing_value(typed, number, facts, versions, values),
            )
        )
    was_root = bool(versions) and versions[-1].table.is_root
    is_root = was_root if facts is None else facts.is_partitioned
    return TableSchema(
        relation.relation_id,
        relation.namespace,
        relation.name,
        relation.replica_identity,
        tuple(columns),
        relation.relation_id if is_root else None,
    )


def _missing_value(
    column: Column,
    number: int | None,
    facts: TableFacts | None,
    versions: Sequence[RelationRecord],
    told: Mapping[int, str | None],
) -> str | None:
    """What rows of earlier versions have in the column. A number has one such value for life: SET DEFAULT leaves it, a
    rewrite clears it in the catalogue, and what was recorded or told holds on. A copy has no earlier rows.

    Source: PostgreSQL ``heap.c``, ``StoreAttrMissingVal`` and ``RelationClearMissing``.
    """
    if number is None or not versions:
        return None
    of_type = column.type_oid, column.typmod
    now = next((each for each in facts.columns if each.attnum == number), None) if facts else None
    known = now.missing_value if now is not None and (now.type_oid, now.typmod) == of_type else None
    known = told.get(number) if told.get(number) is not None else known
    for version in reversed(versions):
        for recorded in version.table.columns:
            if recorded.attnum == number:
                is_text_alike = recorded.column_type == column.column_type
                return recorded.missing_value if is_text_alike else known
    return known


def _typed(column: RelationColumn, types: Mapping[int, TypeFacts], versions: Sequence[RelationRecord]) -> Column:
    """A column with what follows from its type. A type is identified by its oid: if it was renamed or dropped since,
    what was recorded of it counts."""
    recorded = [each for each in _recorded(versions) if each.type_oid == column.type_oid]
    same = next((each for each in recorded if each.typmod == column.typmod), None)
    if same is not None and column.type_oid not in types:
        return replace(same, name=column.name)
    base_oid, base_typmod = domain_base(column.type_oid, column.typmod, types)
    is_domain = base_oid != column.type_oid
    return Column(
        name=column.name,
        type_oid=column.type_oid,
        type_name=recorded[0].type_name if recorded else _type_name(column.type_oid, types),
        typmod=column.typmod,
        column_type=column_type(column.type_oid, column.typmod, types),
        base_type=_type_name(base_oid, types) if is_domain else None,
        base_typmod=base_typmod if is_domain else -1,
    )


def _recorded(versions: Sequence[RelationRecord]) -> Iterator[Column]:
    """Columns of user types, the newest first."""
    for version in reversed(versions):
        yield from (column for column in version.table.columns if column.type_oid >= FIRST_USER_OID)


def _type_name(type_oid: int, types: Mapping[int, TypeFacts]) -> str:
    facts = types.get(type_oid)
    return facts.name if facts else BUILTIN_NAMES.get(type_oid, f"oid {type_oid}")
