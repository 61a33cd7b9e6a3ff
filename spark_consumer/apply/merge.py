"""The SQL of merges: which row of the lake a folded row matches, and what becomes of it.

In: a table's shape. Out: conditions and assignments for delta-rs or for Spark, where ``source`` holds columns
by place, ``change`` and ``unknown``, and ``target`` is the lake table.

A newer position is required of every change, so an older event never overwrites a newer one (I5).
An unknown column keeps the target's value (I6).
"""

from walbridge.schemas.topics import LAKE_STRUCT
from walbridge.spark_consumer.apply.key_bounds import KeyBounds
from walbridge.spark_consumer.delta.dialect import DELTA_RS, Dialect
from walbridge.spark_consumer.delta.table import Merge
from walbridge.spark_consumer.fold.fold import first_key_name
from walbridge.spark_consumer.fold.schema_join import place_name
from walbridge.spark_consumer.fold.shape import TableShape

_STRUCT = f"target.{LAKE_STRUCT}"
_NEWER = (
    f"(source.change['commit_lsn'] > {_STRUCT}['commit_lsn'] OR (source.change['commit_lsn'] = {_STRUCT}['commit_lsn'] "
    f"AND source.change['ordinal'] > {_STRUCT}['ordinal']))"
)
_FLOATS = frozenset({"float", "double"})


def same_key(shape: TableShape, dialect: Dialect = DELTA_RS) -> str:
    """SQL: a folded row and the lake's row have the same key."""
    columns = {place: f"source.{place_name(place)}" for place in shape.key_places}
    return _same_key(shape, columns, "source.change['key_text']", dialect)


def same_first_key(shape: TableShape) -> str:
    """SQL: the lake's row has the first key of the folded row's chain of key changes."""
    first_keys = {place: f"source.{first_key_name(place)}" for place in shape.key_places}
    return _same_key(shape, first_keys, "source.first_key_text", DELTA_RS)


def _same_key(shape: TableShape, source: dict[int, str], key_text: str, dialect: Dialect) -> str:
    terms = []
    for place in shape.key_places:
        column_type = shape.columns[place].column_type
        theirs = f"target.{dialect.quoted(shape.lake_names[place])}"
        # A null stands for a value such as infinity: which one, ``key_text`` tells.
        equals = "IS NOT DISTINCT FROM" if column_type.may_be_exceptional else "="
        terms.append(f"({source[place]} {equals} {theirs})")
        if column_type.codec in _FLOATS:
            # Postgres sends a change of 0.0 to -0.0 as a change of the key; a join takes them for one.
            terms.append(f"(CAST({source[place]} AS {dialect.text}) = CAST({theirs} AS {dialect.text}))")
    if shape.has_exceptional_key:
        terms.append(f"({key_text} IS NOT DISTINCT FROM {_STRUCT}['key_text'])")
    return " AND ".join(terms)


def key_merge(
    shape: TableShape,
    *,
    with_unknown: bool,
    inserts_unknown: bool = True,
    by_operation: bool = False,
    inserts_any: bool = True,
    bounds: KeyBounds | None = None,
    dialect: Dialect = DELTA_RS,
) -> Merge:
    """The MERGE of folded rows into a table with a key.

    Args:
        with_unknown: some rows have unknown columns, which keep the table's values.
        inserts_unknown: insert a row with unknown columns that the table lacks; False: skip it.
        by_operation: only insert rows that are new by their operation, and only update others. Otherwise a new row that
            the table holds, and an old one that it lacks, would give the expected counts together.
        inserts_any: there are rows to insert. If not, the clause is left out: a join that keeps rows without a match
            costs Spark several times as much.
        bounds: the bounds of the keys.
    """
    inserts = _values(shape, dialect)
    updates = dict(inserts)
    if with_unknown:
        for place in shape.toastable_places:
            name = dialect.quoted(shape.lake_names[place])
            updates[name] = (
                f"CASE WHEN {dialect.contains}(source.unknown, CAST({place} AS INT)) THEN target.{name} "
                f"ELSE source.{place_name(place)} END"
            )
    within = bounds.condition(dialect) if bounds is not None else ""
    insert_when = "source.change['op'] <> 'd'"
    insert_when += "" if inserts_unknown else " AND coalesce(cardinality(source.unknown), 0) <= 0"
    insert_when += " AND source.is_new" if by_operation else ""
    return Merge(
        condition=" AND ".join(filter(None, [same_key(shape, dialect), within])),
        delete_when=f"source.change['op'] = 'd' AND {_NEWER}",
        update_when=f"source.change['op'] <> 'd' AND {_NEWER}" + (" AND NOT source.is_new" if by_operation else ""),
        updates=updates,
        insert_when=insert_when if inserts_any else None,
        inserts=inserts,
    )


def keyless_merge(shape: TableShape, same_row: str) -> Merge:
    """The MERGE for a table without a key: rows marked ``gone`` delete all equal rows, the others are inserted."""
    return Merge(
        condition=f"source.gone AND {same_row}",
        delete_when="source.gone",
        insert_when="NOT source.gone",
        inserts=_values(shape),
    )


def _values(shape: TableShape, dialect: Dialect = DELTA_RS) -> dict[str, str]:
    values = {dialect.quoted(name): f"source.{place_name(place)}" for place, name in enumerate(shape.lake_names)}
    return values | {dialect.quoted(LAKE_STRUCT): "source.change"}


def missing_sql(condition: str) -> str:
    """SELECT one number: source rows that the lake has no row for."""
    return f"SELECT count(*) AS missing FROM source LEFT ANTI JOIN target ON {condition}"
