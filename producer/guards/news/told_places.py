"""Up to where the stream has told the columns of each table, as progress remembers it.

In: rows about columns as the stream brings them; columns as the catalogue has them. Out: places in progress, each in
the cut with what it holds for (I4): a session that begins behind a row knows by it that the row comes no more.

A table has a place from its first row on, or from a look on that finds it just as it was told last: then what was
recorded of it holds, and later rows go on from there. A copy begins without one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.guards.doubts.rewrites import as_text, from_text
from walbridge.producer.postgres.catalog import tables_facts
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import TableFacts
from walbridge.producer.postgres.told_rows import NewestRow, newest_rows
from walbridge.producer.relations.columns.told_columns import Signature, ToldPlace, ToldRow, signature
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.control.progress_record import DDL_OPTION
from walbridge.schemas.control.table_progress import CURRENT, TableProgress


class ToldPlaces:
    """The places of one session."""

    def __init__(self, connection: SqlConnection, tables: Tables, tracker: ProgressTracker) -> None:
        self._connection, self._tables, self._tracker = connection, tables, tracker
        self._is_told = self._has_rows = False
        self._asked: dict[int, _Asked] = {}
        """Of tables that the last look at them left without a version."""

    def open(self, publication: int | None) -> None:
        """A session begins; ``publication``: the oid of the one that brings the rows, None where none does. What was
        remembered under another one is forgotten: rows may have come between the two."""
        self._is_told = self._has_rows = publication is not None
        self._asked.clear()
        progress = self._tracker.progress
        if progress.options.get(DDL_OPTION) != str(publication):
            known = {each: table for each, table in progress.tables.items() if _told(table)}
            if known:
                self._tracker.remember_tables({each: _with(table, "") for each, table in known.items()})
        self._tables.told.begin(self._connection, self.of if self._is_told else None)

    def of(self, relation_id: int) -> ToldPlace | None:
        """The place of a table that is current; None where it has none, or is being copied."""
        table = self._tracker.progress.tables.get(relation_id)
        told = _told(table) if table is not None and _is_followed(table) else ""
        return ToldPlace.from_text(told) if told else None

    def take(self, relation_id: int, row: ToldRow) -> None:
        """The stream brings a row about this table."""
        table = self._tracker.progress.tables.get(relation_id)
        if not self._is_told or table is None or not _is_followed(table):
            return
        self._has_rows = True
        place = self._tables.told.take(relation_id, row)
        if place is not None:
            self._remember(table, place)

    def look(self, relation_ids: Iterable[int]) -> None:
        """Give tables a place that have none, and name the version that holds there, where the catalogue has just what
        was recorded. Rows are kept for a day, versions for ever.

        A table that is not certain is asked for again only once the stream has brought a row or a version of it: what
        the catalogue has more than that is still to come. Its rows have ascending ids, since DDL locks the table, so
        those before the one that is known are not read again.

        Raises:
            RetryableError, OperatorError: the server is away or refuses.
        """
        wanted = self._wanted(relation_ids) if self._has_rows else {}
        newest = newest_rows(self._connection, wanted, min(each.row_id for each in wanted.values())) if wanted else {}
        if not newest:
            # An earlier trigger has none: a source that is asked each time would log an error each time.
            self._has_rows = self._has_rows and newest is not None
            return
        facts, _ = tables_facts(self._connection, newest)  # after the rows: what is added meanwhile is counted here
        for relation_id, row in newest.items():
            now, known = facts.get(relation_id), self._tables.writers.current_version(relation_id)
            if now is not None and known is not None and self._is_certain(row, now, known):
                place = ToldPlace(row.row_id, row.count, row.by, known.schema_id)
                self._remember(self._tracker.progress.tables[relation_id], place)
            else:
                asked = wanted[relation_id]
                self._asked[relation_id] = replace(asked, row_id=max(asked.row_id, row.row_id))

    def _wanted(self, relation_ids: Iterable[int]) -> dict[int, "_Asked"]:
        """The tables that lack a version and are not as they were when they were asked for last."""
        wanted = {}
        for each in relation_ids:
            known = self._tables.writers.current_version(each)
            if known is None or not _is_followed(self._tracker.progress.tables[each]):
                continue
            place, before = self.of(each), self._asked.get(each)
            if place is not None and place.schema_id == known.schema_id:
                continue
            if before is None or (before.place, before.schema_id) != (place, known.schema_id):
                row_ids = [found.row_id for found in (place, before) if found is not None]
                wanted[each] = _Asked(place, known.schema_id, max(row_ids, default=0))
        return wanted

    def _is_certain(self, row: NewestRow, now: TableFacts, known: RelationRecord) -> bool:
        """Whether the table's newest version has the columns that it has now, and none is still to come."""
        relation_id = known.table.relation_id
        if now.attnum_max != row.count:
            return False
        place, columns, there = self.of(relation_id), signature(known.table.columns), signature(now.columns)
        if place is not None and not place.schema_id:
            return place.row_id == row.row_id and columns == there  # no row is still to come
        others = [signature(each.table.columns) for each in self._tables.versions.versions_of(relation_id)]
        return {*columns} <= {*there} and _is_unambiguous(columns, others)

    def _remember(self, table: TableProgress, place: ToldPlace) -> None:
        self._tracker.remember_tables({table.relation_id: _with(table, place.as_text())})


@dataclass(frozen=True, slots=True)
class _Asked:
    """As of when a table was asked for. ``row_id``: of its newest row that is known, 0 where none is."""

    place: ToldPlace | None
    schema_id: str
    row_id: int


def _is_unambiguous(known: Signature, versions: Sequence[Signature]) -> bool:
    """Whether no version has the same columns with other numbers: that one may come again after a crash."""
    announced = [each[:3] for each in known]
    return all(each == known for each in versions if [column[:3] for column in each] == announced)


def _is_followed(table: TableProgress) -> bool:
    return table.state == CURRENT and table.copy is None


def _told(table: TableProgress) -> str:
    return from_text(table.storage or "").told


def _with(table: TableProgress, told: str) -> TableProgress:
    return replace(table, storage=as_text(replace(from_text(table.storage or ""), told=told)))
