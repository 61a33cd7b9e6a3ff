"""Tables whose columns were added, dropped or renamed, and of which the stream has brought no Relation since.

In: columns as the catalogue has them, and as they were announced last. Out: what the stream would announce of a table
now, once all earlier changes have come. ALTER TABLE locks the table, so no change with the earlier columns comes after
the WAL position that is read after the look (I8).

What is told has the catalogue's attribute numbers. Its columns and the published ones are two questions, so the first
is asked again after the second: a name may have gone to another column between them. A change of what is published is
for ``Memberships`` to find, whose question therefore comes after this look, in time for the same cut.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from walbridge.producer.guards.look_pace import LookPace
from walbridge.producer.postgres.catalog import Publications, published_tables_unless_locked, tables_facts, type_facts
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublishedTable, TableFacts
from walbridge.producer.postgres.publications.publication import insert_lsn
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.pg_types import TypeFacts
from walbridge.schemas.position import Lsn


@dataclass(frozen=True, slots=True)
class AlteredTable:
    """An altered table. ``known``: its version before; no change of that version comes after ``since``."""

    known: RelationRecord
    table: PublishedTable
    facts: TableFacts
    types: Mapping[int, TypeFacts]
    since: Lsn


class AlteredTables:
    """Finds the altered tables of one session."""

    def __init__(self, publications: Publications, connection: SqlConnection, tables: Tables) -> None:
        self._publications, self._connection, self._tables = publications, connection, tables
        self._pace = LookPace()
        self._found: dict[int, AlteredTable] = {}
        self._announced_alike: dict[int, tuple[RelationRecord, TableFacts]] = {}
        """Tables that differ from their version, but of which the stream would announce the same, as columns that are
        not published do. With the version and the facts that were compared."""

    def look_if_due(self, relation_ids: Iterable[int], *, is_altered: bool) -> None:
        """Look, unless that was just now and nothing was altered since.

        Raises:
            RetryableError, OperatorError: the server is away or refuses.
        """
        if is_altered or self._pace.is_due:
            with self._pace.look():
                self._look(list(relation_ids))

    def _look(self, relation_ids: list[int]) -> None:
        facts, _ = tables_facts(self._connection, relation_ids)
        altered = {}
        for relation_id, now in facts.items():
            known = self._tables.writers.current_version(relation_id)
            if (
                known is not None
                and _has_other_columns(known, now)
                and self._announced_alike.get(relation_id) != (known, now)
            ):
                altered[relation_id] = known, now
        self._found = {
            each: found for each, found in self._found.items() if altered.get(each) == (found.known, found.facts)
        }
        if altered.keys() - self._found.keys():
            self._describe({each: found for each, found in altered.items() if each not in self._found})

    def _describe(self, altered: Mapping[int, tuple[RelationRecord, TableFacts]]) -> None:
        published = published_tables_unless_locked(self._connection, self._publications) or []
        still, _ = tables_facts(self._connection, altered)
        oids = {column.type_oid for _, now in altered.values() for column in now.columns}
        types = type_facts(self._connection, oids)
        since = insert_lsn(self._connection)
        for table in published:
            known, now = altered.get(table.relation_id, (None, None))
            if known is None or now is None or still.get(table.relation_id) != now or not _has_all(table, now):
                continue  # it is altered just now: the next look shows how
            shown = [each for each in now.columns if each.name in table.column_names]
            if _has_other_columns(known, TableFacts(now.replica_identity, tuple(shown))):
                self._found[table.relation_id] = AlteredTable(known, table, now, types, since)
            else:
                self._announced_alike[table.relation_id] = known, now

    def is_due_at(self, lsn: Lsn) -> bool:
        """Whether ``take`` returns something."""
        return any(found.since <= lsn for found in self._found.values())

    def take(self, lsn: Lsn) -> dict[int, AlteredTable]:
        """Tables of which nothing comes under other columns after ``lsn``. Each is returned once a look."""
        told = {each: found for each, found in self._found.items() if found.since <= lsn}
        for relation_id in told:
            del self._found[relation_id]
        return told


def _has_all(table: PublishedTable, now: TableFacts) -> bool:
    return {*table.column_names} <= {each.name for each in now.columns}


def _has_other_columns(known: RelationRecord, now: TableFacts) -> bool:
    """Whether the columns differ in name, type or, where it is known, number."""
    before = [(each.name, each.type_oid, each.typmod) for each in known.table.columns]
    if before != [(each.name, each.type_oid, each.typmod) for each in now.columns]:
        return True
    pairs = zip(known.table.columns, now.columns, strict=True)
    return any(one.attnum is not None and one.attnum != other.attnum for one, other in pairs)
