"""The columns of this session's tables as event triggers tell them, at the place that the stream has reached.

In: rows about columns as the stream brings them, and for each table the place that progress remembers. Out: the numbers
of an announced relation's columns, where the source's own rows account for all that happened to the table until now
(``columns/told_columns.py``); nothing where they do not, and then the catalogue decides as without triggers.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import TableFacts
from walbridge.producer.postgres.told_rows import later_rows
from walbridge.producer.relations.columns.told_columns import (
    NumberedColumns,
    ToldPlace,
    ToldRow,
    are_all_told,
    columns_of,
    numbered,
    numbers_now,
    with_earlier_values,
)
from walbridge.producer.relations.relation_cache import RelationCache
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.ddl_row import ToldColumn, parse_ddl_row

_ROWS_HELD_MAX = 1_000
"""Of tables, the last ones; the rows of others are read back from the source."""
PlaceOf = Callable[[int], ToldPlace | None]
"""Returns how far the stream has told a table's columns; None where nobody knows, or the table is being copied."""


class ToldTables:
    """The told columns of one session."""

    def __init__(self, cache: RelationCache) -> None:
        self._cache = cache
        self._connection: SqlConnection | None = None
        self._place_of: PlaceOf = lambda _: None
        self._rows: dict[int, ToldRow] = {}
        """By table, the last row that the stream brought, or that the source had for the place that is remembered."""

    def begin(self, connection: SqlConnection, place_of: PlaceOf | None) -> None:
        """A session begins; ``place_of`` is None where the stream does not bring such rows."""
        self._connection, self._place_of, self._rows = connection, place_of or (lambda _: None), {}

    def take(self, relation_id: int, row: ToldRow) -> ToldPlace | None:
        """The stream brings a row about a table. Returns the place to remember; None if it is there already."""
        place = self._place_of(relation_id)
        if place is not None and row.row_id <= place.row_id:
            return None
        before = self._rows.get(relation_id)
        known = before.told if before is not None and place is not None and before.row_id == place.row_id else None
        self._rows.pop(relation_id, None)
        self._rows[relation_id] = replace(row, told=with_earlier_values(row.told, known))
        if len(self._rows) > _ROWS_HELD_MAX:
            del self._rows[next(iter(self._rows))]
        return ToldPlace(row.row_id, row.told.count, row.told.by)

    def of(self, relation: Relation, facts: TableFacts | None) -> NumberedColumns | None:
        """What was told of the columns of a relation that the stream announces.

        Args:
            facts: the catalogue as it is, where the table is still there.

        Raises:
            RetryableError, OperatorError: the server is away or refuses.
        """
        place, versions = self._place_of(relation.relation_id), self._cache.versions_of(relation.relation_id)
        recorded = {column.attnum for each in versions for column in each.table.columns}
        if place is None or None in recorded:
            return None  # where a version lacks numbers, readers go by names
        version = self._version(place, versions)
        now = numbers_now(relation, facts, place, version) if facts is not None else None
        if now is not None and {*now.numbers} <= recorded:
            return now
        columns = self._columns(relation.relation_id)
        if columns is None or (place.schema_id and len(columns) != len(relation.columns)):
            return None
        return numbered(relation, columns, facts, versions)

    def tells_all(self, relation_id: int) -> bool:
        """Whether rows tell each column that the table got since the place that is remembered. Raises as ``of``."""
        return self._columns(relation_id) is not None

    def _columns(self, relation_id: int) -> tuple[ToldColumn, ...] | None:
        """The columns at the place that the stream has reached; None where something since was not told."""
        place = self._place_of(relation_id)
        if place is None or self._connection is None:
            return None
        found = later_rows(self._connection, relation_id, place.row_id)
        if found is None:
            return None
        parsed = [(row_id, parse_ddl_row(text)) for row_id, text in found.rows]
        rows = [ToldRow(row_id, each.told) for row_id, each in parsed if each is not None and each.told is not None]
        if len(rows) < len(parsed):
            return None
        later = [each for each in rows if each.row_id > place.row_id]
        if not are_all_told(place, later, found.count, found.by):
            return None
        if place.schema_id:
            version = self._version(place, self._cache.versions_of(relation_id))
            return None if version is None else columns_of(version)
        held = self._rows.get(relation_id)
        if held is not None and held.row_id == place.row_id:
            return held.told.columns  # with values that a rewrite has taken out of the catalogue since
        return next((each.told.columns for each in rows if each.row_id == place.row_id), None)

    def _version(self, place: ToldPlace, versions: Sequence[RelationRecord]) -> RelationRecord | None:
        return next((each for each in versions if each.schema_id == place.schema_id), None)
