"""Compares tables' files, partitions, keys and types as the catalogue shows them with what progress remembers.

In: tables to look at, and what the stream said of them (``stream_facts.py``). Out: a doubt (``doubts.py``) for each
table that may not equal the source any more, by its files (``file_judge.py``), columns or key. For all others progress
remembers the new state, for the next comparison. Of a table in doubt it keeps the old state, so that a restart finds
the same doubt (I7, I8).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.errors.tables import key_made_again
from walbridge.producer.guards.doubts.columns.altered_columns import AlteredColumns
from walbridge.producer.guards.doubts.doubts import Doubts
from walbridge.producer.guards.doubts.file_judge import FileJudge, Judgement
from walbridge.producer.guards.doubts.keys_made_again import KeysMadeAgain
from walbridge.producer.guards.doubts.new_labels import NewLabels
from walbridge.producer.guards.doubts.rewrites import as_text, by_relation
from walbridge.producer.guards.doubts.stream_facts import StreamFacts
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublicationState, TableStorage
from walbridge.producer.postgres.publications.publication import insert_lsn
from walbridge.producer.postgres.storage.table_files import labels_of, table_storages
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings


class StorageComparison:
    """The comparisons of one session."""

    def __init__(
        self,
        settings: Settings,
        connection: SqlConnection,
        tables: Tables,
        tracker: ProgressTracker,
        facts: StreamFacts,
        doubts: Doubts,
    ) -> None:
        self._connection, self._tables, self._tracker = connection, tables, tracker
        self._facts, self._doubts = facts, doubts
        self._publications = settings.postgres.publication_names
        self._files = FileJudge(facts, doubts.truncations, tracker, self._name)
        self._columns = AlteredColumns(settings.postgres, connection, tables, self._name)
        self._keys = KeysMadeAgain(tables, tracker, lambda: insert_lsn(connection))
        self._labels = NewLabels(
            connection,
            tracker,
            tables.writers,
            facts.label_dates,
            settings.postgres.slot,
            lambda: insert_lsn(connection),
        )
        self._values_not_recorded: set[int] = set()
        """Tables with a new column of which no recorded version has the value of older rows yet."""

    def look_up_labels(self) -> None:
        """Look up every new label name of encoded rows in the catalogue. Raises as ``Doubts.add`` and ``compare``."""
        self._doubts.add_mislabelled(self._labels.look_up())

    def pass_to(self, end: Lsn) -> None:
        """The stream has brought all transactions that ended before this position."""
        self._labels.pass_to(end)

    def awaits_relation(self, relation_id: int) -> bool:
        """Whether the last comparison found a key or a column that the stream has not announced yet. A rewrite takes a
        new column's value for older rows out of the catalogue, so files are compared again when its Relation comes."""
        return relation_id in self._values_not_recorded or self._keys.has_pending_key(relation_id)

    def announce_key(self, relation_id: int) -> None:
        """The stream announced the table, and it was compared after that. Raises as ``Doubts.add``."""
        if self._keys.is_doubt(relation_id):
            self._doubts.add({relation_id: key_made_again(self._name(relation_id))})

    def compare(self, relation_ids: Iterable[int], snapshot: Snapshot | None) -> set[int]:
        """Find the tables of which rows may have come, gone or changed without a message in the stream, and remember
        the state of all others.

        Returns the tables that the catalogue does not have any more: nobody knows what was done to them before.

        Args:
            snapshot: taken a moment before.
        """
        self.look_up_labels()  # it compares with what progress remembers, which the following replaces
        wanted = set(relation_ids)
        found = table_storages(self._connection, wanted, self._publications)
        known = {each: self._facts.known(each) for each in found}
        self._facts.rewrites.compare_labels(known, found, partial(labels_of, self._connection))
        columns, untold = self._columns.compare(known, found)
        self._values_not_recorded = (self._values_not_recorded - wanted) | untold
        doubted = columns.keys() | self._doubts.reasons.keys()
        not_yet = untold | self._labels.compare(known, found, doubted)
        for relation_id, now in found.items():
            self._keys.note_compared(relation_id, known[relation_id], now)
        judged = {each: self._files.judge(each, known[each], now, columns.get(each)) for each, now in found.items()}
        sound = {each for each, it in judged.items() if it.doubt is None and each not in self._doubts}
        changed = self._changed(sound - not_yet, known, found)  # before the facts of the stream are let go
        self._doubts.add({each: it.doubt for each, it in judged.items() if it.doubt is not None and it.awaited is None})
        self._note_files(judged, found, snapshot)
        if changed:
            self._tracker.remember_tables(changed)
        return wanted - found.keys()

    def _changed(
        self, sound: Iterable[int], known: Mapping[int, TableStorage], found: Mapping[int, TableStorage]
    ) -> dict[int, TableProgress]:
        """What progress is to remember anew of tables in no doubt. If it remembered the new state of a table in doubt,
        a restart would not find the doubt again."""
        tables = self._tracker.progress.tables
        states = {each: self._remembered(each, known[each], found[each]) for each in sound}
        return {
            each: replace(tables[each], storage=storage)
            for each, storage in states.items()
            if tables[each].storage != storage
        }

    def _note_files(
        self, judged: Mapping[int, Judgement], found: Mapping[int, TableStorage], snapshot: Snapshot | None
    ) -> None:
        """Let the stream explain what it may still explain, and let go of what was to explain the other files."""
        unexplained = {
            each: (it.awaited, it.doubt)
            for each, it in judged.items()
            if it.awaited is not None and it.doubt is not None
        }
        self._doubts.truncations.note_compared(found, unexplained, snapshot, partial(insert_lsn, self._connection))
        for relation_id in found.keys() - unexplained.keys():
            self._facts.partitions.note_compared(relation_id)
            self._facts.rewrites.forget(found[relation_id].files)

    def _remembered(self, relation_id: int, known: TableStorage, now: TableStorage) -> str:
        now = replace(now, key=self._keys.remembered(relation_id, known, now), told=known.told)
        return as_text(self._facts.partitions.marked(relation_id, by_relation(known), now))

    def note_look(self, state: PublicationState, snapshot: Snapshot | None) -> None:
        """All tables were looked at when the publication was in this state."""
        self._facts.is_look_due, self._columns.seen = False, snapshot
        self._doubts.truncations.note_look(state.lsn, snapshot)

    def _name(self, relation_id: int) -> str:
        return self._tables.versions.name(relation_id)
