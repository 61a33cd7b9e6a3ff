"""What the catalogue and the recorded versions say of the columns of one announced relation. Pure.

In: the relation, the catalogue's facts, the recorded versions of the relation, oldest first. Out: sets of attribute
numbers, by which ``column_matching.py`` finds each column's own number, and ``uncertain_columns.py`` the columns that
nobody can tell any more.
"""

from collections.abc import Sequence
from functools import cached_property

from walbridge.producer.pgoutput.messages import Relation, RelationColumn
from walbridge.producer.postgres.facts import ColumnFacts, TableFacts
from walbridge.producer.relations.columns.number_ranges import Ranges, number_ranges
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.table_schema import Column

Numbers = list[int | None]
"""The attribute number of each column; None where nobody can tell."""


class KnownColumns:
    """The facts of one relation. Each set of attribute numbers is made when it is first asked for."""

    def __init__(self, relation: Relation, facts: TableFacts | None, versions: Sequence[RelationRecord]) -> None:
        self.relation, self.facts, self.versions = relation, facts, versions

    @property
    def newest(self) -> Sequence[Column]:
        """The columns of the newest version."""
        return self.versions[-1].table.columns if self.versions else ()

    @property
    def catalogue(self) -> Sequence[ColumnFacts]:
        """The columns that the catalogue has now."""
        return self.facts.columns if self.facts is not None else ()

    @cached_property
    def recorded(self) -> set[int | None]:
        """The numbers in all versions; with None if that of a column was not known."""
        return {column.attnum for version in self.versions for column in version.table.columns}

    @cached_property
    def present(self) -> set[int]:
        """The numbers that the catalogue has now."""
        return {column.attnum for column in self.catalogue}

    @cached_property
    def kept(self) -> set[int]:
        """The numbers of the newest version that the catalogue still has."""
        return self.present & {column.attnum for column in self.newest}

    @cached_property
    def candidates(self) -> set[int] | None:
        """The numbers that the columns may have, if the relation is newer than all versions: those of the newest, and
        all that were given since. None where some are not known. The column of a candidate that is neither recorded nor
        present came and went before any Relation had it."""
        newest = {column.attnum for column in self.newest}
        if self.facts is None or not self.versions or None in newest or not self.facts.attnum_max:
            return None
        known = {number for number in self.recorded if number is not None}
        given_since = set(range(max(known, default=0) + 1, self.facts.attnum_max + 1))
        # A new column that is generated has its table rewritten, and so copied, or is not published.
        return (known & newest) | (given_since - self._generated)

    @cached_property
    def ranges(self) -> Ranges | None:
        """The candidates that each column may have. None where candidates are not known, or a name has a number that is
        no candidate, as that of a column that was not published before."""
        if self.candidates is None:
            return None
        by_name = {*self.by_name} - {None}
        if by_name - self.candidates - self._generated and self.kept <= by_name:
            return None
        return number_ranges(len(self.relation.columns), self.candidates, self.kept)

    @cached_property
    def described(self) -> list[ColumnFacts | None]:
        """For each column, the facts of the catalogue's column with the same name and type; None where there is
        none."""
        known = {(each.name, each.type_oid, each.typmod): each for each in self.catalogue}
        return [known.get(_signature(column)) for column in self.relation.columns]

    @property
    def by_name(self) -> Numbers:
        """For each column the number that the catalogue's column of the same name and type has now."""
        return [each.attnum if each else None for each in self.described]

    @property
    def _generated(self) -> set[int]:
        return {column.attnum for column in self.catalogue if column.is_generated}


def version_with_same_columns(relation: Relation, versions: Sequence[RelationRecord]) -> RelationRecord | None:
    """The newest version with exactly these columns; None where there is none."""
    wanted = [_signature(column) for column in relation.columns]
    for version in reversed(versions):
        if [(each.name, each.type_oid, each.typmod) for each in version.table.columns] == wanted:
            return version
    return None


def _signature(column: RelationColumn) -> tuple[str, int, int]:
    return column.name, column.type_oid, column.typmod
