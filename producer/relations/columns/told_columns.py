"""The columns of a table at a place of the stream, by the rows that event triggers wrote about DDL. Pure.

In: the last such row before that place, or the version that was recorded there; the rows that came since, which the
source has already though the stream may not; the catalogue as it is. Out: whether all columns that were ever added
since are told by these rows, and if so the numbers of an announced relation's columns.

A column keeps its number for life, and its place among the others. So a relation with just the names and types of the
columns that are known has their numbers, unless a column was added since without being told: a trigger may have been
disabled, or have failed. Then the catalogue has more numbers than the rows account for, or a row has one that its
transaction did not write, and nothing is taken from what was told.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.postgres.facts import ColumnFacts, TableFacts
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.ddl_row import ToldColumn, ToldColumns
from walbridge.schemas.table_schema import Column


@dataclass(frozen=True, slots=True)
class ToldPlace:
    """Up to where the stream has told a table's columns. ``row_id``: rows up to this one are told, or come too late to
    tell anything; ``count`` and ``by`` as in ``ToldColumns``.

    ``schema_id``: of a version with all columns that were published when the catalogue was looked at, by then or before
    they were; empty where the last row has them.
    """

    row_id: int
    count: int
    by: str
    schema_id: str = ""

    def as_text(self) -> str:
        """The text by which progress remembers it."""
        return f"{self.row_id}:{self.count}:{self.by}:{self.schema_id}"

    @classmethod
    def from_text(cls, text: str) -> "ToldPlace":
        """``as_text`` read back."""
        row_id, count, by, schema_id = text.split(":")
        return cls(int(row_id), int(count), by, schema_id)


@dataclass(frozen=True, slots=True)
class ToldRow:
    """A row about columns, by its id."""

    row_id: int
    told: ToldColumns


@dataclass(frozen=True, slots=True)
class NumberedColumns:
    """What was told of an announced relation's columns: their numbers in their order, and by number what older rows
    have in it, as text."""

    numbers: tuple[int, ...]
    missing_values: Mapping[int, str | None] = field(default_factory=dict)


def are_all_told(place: ToldPlace, later: Sequence[ToldRow], count: int, by: str) -> bool:
    """Whether the rows after a place tell each column that was added until now.

    Args:
        count, by: as the catalogue has them now.
    """
    known = place.count
    for each in later:
        told, came = each.told, range(known + 1, each.told.count + 1)
        if told.is_untold or told.by != place.by or not told.fresh.issuperset(came):
            return False
        if came and not told.may_have_grown:
            return False
        known = told.count
    return (known, place.by) == (count, by)


Signature = list[tuple[str, int, int, int | None]]
"""Of columns: name, type, modifier, number."""


def signature(columns: Iterable[Column | ColumnFacts | ToldColumn]) -> Signature:
    """Of these columns, in their order."""
    return [(each.name, each.type_oid, each.typmod, each.attnum) for each in columns]


def has_columns(relation: Relation, columns: Sequence[Column | ColumnFacts | ToldColumn]) -> bool:
    """Whether the relation has just these columns."""
    announced = [(each.name, each.type_oid, each.typmod) for each in relation.columns]
    return announced == [each[:3] for each in signature(columns)]


def numbers_now(
    relation: Relation, facts: TableFacts, place: ToldPlace, version: RelationRecord | None
) -> NumberedColumns | None:
    """The numbers, where the catalogue alone is enough to know them; else None.

    All columns of a version that are still there were there all the time, so a relation with as many has just these.
    After a row, nothing was added if there are no more numbers. Names may have gone from one column to another, but
    their order is that of the numbers.
    """
    if version is not None:
        columns = signature(version.table.columns)
        is_there = has_columns(relation, version.table.columns) and set(columns) <= {*signature(facts.columns)}
    else:
        columns = signature(facts.columns)
        is_there = not place.schema_id and facts.attnum_max == place.count and has_columns(relation, facts.columns)
    return NumberedColumns(tuple(number for *_, number in columns if number is not None)) if is_there else None


def columns_of(version: RelationRecord) -> tuple[ToldColumn, ...] | None:
    """The columns of a version; None where a number is not known."""
    found = []
    for each in version.table.columns:
        if each.attnum is None:
            return None
        found.append(ToldColumn(each.attnum, each.name, each.type_oid, each.typmod, each.missing_value))
    return tuple(found)


def numbered(
    relation: Relation, told: Sequence[ToldColumn], facts: TableFacts | None, recorded: Sequence[RelationRecord]
) -> NumberedColumns | None:
    """The relation's columns among those that were told; None where one is not, or has a value in older rows that
    nobody tells.

    Args:
        facts: the catalogue, for values that are too large for a row.
        recorded: the table's versions.
    """
    by_name = {(each.name, each.type_oid, each.typmod): each for each in told}
    found = [by_name.get((each.name, each.type_oid, each.typmod)) for each in relation.columns]
    columns = [each for each in found if each is not None]
    numbers = tuple(each.attnum for each in columns)
    if len(columns) < len(found) or list(numbers) != sorted({*numbers}):
        return None
    known = {column.attnum for version in recorded for column in version.table.columns}
    values: dict[int, str | None] = {}
    for each in columns:
        value = each.missing_value if each.is_value_told else _value_now(each, facts)
        if value is None and not each.is_value_told and each.attnum not in known:
            return None
        values[each.attnum] = value
    return NumberedColumns(numbers, values)


def with_earlier_values(told: ToldColumns, before: ToldColumns | None) -> ToldColumns:
    """With the values that older rows have by an earlier row: a rewrite takes them out of the catalogue, and into the
    rows themselves, of which readers have the older ones."""
    if told.columns is None or before is None or before.columns is None:
        return told
    values = {(c.attnum, c.type_oid, c.typmod): c for c in before.columns if c.missing_value is not None}
    columns = tuple(_with_value(each, values.get((each.attnum, each.type_oid, each.typmod))) for each in told.columns)
    return replace(told, columns=columns)


def _with_value(column: ToldColumn, before: ToldColumn | None) -> ToldColumn:
    if before is None or column.missing_value is not None:
        return column
    return replace(column, missing_value=before.missing_value, is_value_told=True)


def _value_now(column: ToldColumn, facts: TableFacts | None) -> str | None:
    of = (column.attnum, column.type_oid, column.typmod)
    columns = facts.columns if facts is not None else ()
    return next((each.missing_value for each in columns if (each.attnum, each.type_oid, each.typmod) == of), None)
