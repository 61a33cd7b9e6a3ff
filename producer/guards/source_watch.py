"""Checks that the source still sends what it was asked for: at the start of each session, and now and then.

In: the catalogue, the broker, the baseline in progress. Out: tables that left the publication, each once the stream can
hold no more changes of it; doubts about tables of which changes may be missing. If changes of all tables may be
missing, an error ends the session (I7). Types that changed get a new version in the metadata topic.
"""

from collections.abc import Iterable
from dataclasses import replace

import structlog

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.guards.altered_tables import AlteredTable, AlteredTables
from walbridge.producer.guards.baseline import Baseline, refuse_lost_publications
from walbridge.producer.guards.doubts.doubts import Doubts
from walbridge.producer.guards.doubts.storage_comparison import StorageComparison
from walbridge.producer.guards.doubts.stream_facts import StreamFacts
from walbridge.producer.guards.leaving_tables import LeavingTables
from walbridge.producer.guards.look_pace import CatalogPace, LookPace
from walbridge.producer.guards.memberships import Memberships
from walbridge.producer.guards.new_names import NewNames
from walbridge.producer.guards.other_publications import look_for_awaited, restated_baseline
from walbridge.producer.guards.taken_baseline import taken_baseline
from walbridge.producer.guards.topic_watch import TopicWatch, refuse_unknown
from walbridge.producer.guards.unfit.foreign_rows import compare_origin, refuse_foreign_rows
from walbridge.producer.guards.unfit.partitions import identity_faults
from walbridge.producer.guards.unfit.unfit_tables import refuse_unfit, unfit_tables
from walbridge.producer.guards.walsender_cache import WalsenderCache
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres.catalog import published_tables_unless_locked, table_names
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublicationState, PublishedTable
from walbridge.producer.postgres.partitions import partition_trees
from walbridge.producer.postgres.publications.combined_publications import operations_in
from walbridge.producer.postgres.publications.ddl_publication import ddl_publication
from walbridge.producer.postgres.publications.publication import new_members, next_xid, publication_state, snapshot_xmax
from walbridge.producer.relations.table_names import Name
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.table_progress import DROPPED, TableProgress
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import metadata_topic

log = structlog.get_logger()

_SINGLE_LOOKS_MAX = 3
"""The number of looks at single tables between two looks at all of them."""


def _snapshot_of(state: PublicationState) -> Snapshot | None:
    return Snapshot.parse(state.snapshot) if state.snapshot else None


class SourceWatch:
    """Watches the source for one session."""

    def __init__(
        self, settings: Settings, connection: SqlConnection, admin: TopicAdmin, tables: Tables, tracker: ProgressTracker
    ) -> None:
        self._settings, self._connection, self._admin = settings, connection, admin
        self._tables, self._tracker = tables, tracker
        self._pace = CatalogPace(connection, lambda: tracker.progress.relation_ids)
        self._ddl_pace = LookPace()
        self._leaving, self._names = LeavingTables(), NewNames()
        self.missing_in_catalogue: set[int] = set()
        """Tables that the catalogue does not have any more."""
        self.doubts = Doubts(settings, tables, tracker)
        self.stream_facts = StreamFacts(settings, connection, tables, tracker, self.doubts)
        self.storage = StorageComparison(settings, connection, tables, tracker, self.stream_facts, self.doubts)
        self._memberships = Memberships(connection, tables, tracker, self.doubts)
        self._publications = settings.postgres.publication_names
        self._altered = AlteredTables(self._publications, connection, tables)
        self.walsender_cache = WalsenderCache(settings, connection, tables, tracker)
        self.topics = TopicWatch(settings, admin, tables, tracker, self.doubts)
        self._shown: Snapshot | None = None
        """The snapshot of the last look at all tables."""
        self._single_looks = 0
        self.notices_tables = False
        """Whether looks also search for tables that came to the publication."""
        self.only_looks = False
        """Whether looks must change nothing on the server, and so assign no xid, as in ``walbridge check``."""
        self.drops_before_stream = False
        """Whether tables have to be dropped before the stream begins, since this session does not ask for them."""
        self.appeared: set[int] = set()
        """Relations of the publication that progress does not know, or knows as dropped; their partitions as well."""

    def open(self) -> None:
        """Check topics, publication and identities at the start of a session; take a baseline where there is none.

        Raises:
            OperatorError: something is gone or was made anew, or changes would come in parts.
            RetryableError: a server is away.
        """
        progress = self._tracker.progress
        self._tables.partition_sessions.begin(progress.floor)
        self._tables.publication_sessions.begin(progress.floor)
        self._tables.archives |= {each: operations_in(table.membership) for each, table in progress.tables.items()}
        self.stream_facts.has_ddl_rows = self._tables.ddl_sessions.asked is not None
        baseline = Baseline.of(progress)
        if baseline is None:
            # Written by earlier code: what there is now is all that can be compared with later.
            followed_tables = [progress.tables[each] for each in progress.relation_ids]
            self._remember(self.baseline(followed_tables, self._connection))
        else:
            newest = self._tables.versions.newest(progress.tables)
            baseline = baseline.with_table_topics({each.table.relation_id: each.topic for each in newest})
            baseline, left = restated_baseline(progress, baseline, self._publications, self._state)
            self._leaving.leave_with_next_cut(left)
            self.drops_before_stream = bool(left)
            self._remember(baseline)
        self._tables.topics.remember(progress.options)
        lost = self.topics.open()  # first: a metadata topic that was made anew lacks records, too
        refuse_unknown(self._tables, progress.relation_ids, metadata_topic(self._settings.name))
        recorded = self._tables.versions.newest(progress.relation_ids)
        kept = [each for each in recorded if each.table.relation_id not in lost]
        self._tables.topics.check(kept)
        self._tables.registry.compare(kept)
        compare_origin(self._connection, self._settings, self._tables, self._tracker, self.doubts)
        self.look()
        published = published_tables_unless_locked(self._connection, self._publications)
        if published is None:
            # The stream would fail on the same faults, but later and with a less helpful message.
            log.warning("a published table is being altered: types and replica identities are not checked")
            return
        followed = [table for table in published if table.relation_id in progress.relation_ids]
        undoubted = [table for table in followed if table.relation_id not in self.doubts]
        self.doubts.add(unfit_tables(self._connection, self._settings, undoubted))

    def baseline(self, tables: Iterable[TableProgress], connection: SqlConnection) -> Baseline:
        """A baseline of these tables as things are now, by the catalogue that this connection sees."""
        return taken_baseline(self._settings, self._admin, self._tables, tables, connection)

    def _remember(self, baseline: Baseline) -> None:
        self._tracker.remember_options(baseline.options)
        if baseline.tables is not self._tracker.progress.tables:
            self._tracker.remember_tables(baseline.tables)

    def look_if_due(self) -> None:
        """Look again, if that was a while ago."""
        self.topics.receive_answers()
        if self._pace.is_overdue:
            self.look()

    def look_before_cut(self) -> None:
        """Look again before a cut says of all tables that they are as it finds them."""
        self.topics.receive_answers()
        self.storage.look_up_labels()
        if self.stream_facts.is_look_due or self._pace.is_due_before_cut():
            self.look()

    def may_be_explained(self, end: Lsn, received: Lsn) -> bool:
        """Whether a message after ``received`` may explain a doubt, so that a cut at ``end`` should wait for it."""
        return self.doubts.truncations.may_explain(end, received)

    def look(self) -> None:
        """Compare the source with what is known of it, now.

        Raises:
            OperatorError: changes may be missing.
            RetryableError: Postgres is away.
        """
        with self._pace.look():
            self._look()

    def _look(self) -> None:
        progress = self._tracker.progress
        baseline = Baseline.of(progress)
        if baseline is None:
            return
        # Before the memberships: what is published of an altered table must be what they are compared by. Before the
        # files: if the value of older rows was cleared in the catalogue since, the files show a rewrite.
        self._altered.look_if_due(progress.relation_ids, is_altered=self._pace.is_altered)
        now = self._state(progress.relation_ids)
        refuse_lost_publications(progress, self._publications, now, self._tables.awaited_publications)
        left = baseline.no_longer_published(self._publications, now)
        self._leaving.note_members(now.members.keys())
        self._memberships.compare(baseline, now)
        self._shown, self._single_looks = _snapshot_of(now), 0
        self._compare_storage(progress.relation_ids, self._shown)
        self.storage.note_look(now, self._shown)
        leaving = {each for each in left & set(progress.relation_ids) if not self._leaving.is_dated(each)}
        if new := self._leaving.not_noted(leaving):
            self._leaving.note_left(new, snapshot_xmax(self._connection) if self.only_looks else self.next_xid())
            # After that xid was assigned: only a later look can show that all transactions below it have ended.
            now = self._state(progress.relation_ids)
        self._leaving.note_look(leaving, now.oldest_xid, now.lsn)
        self._names.note_look(now.names, now.lsn, self._tables.writers.name_of)
        self._notice_ddl_publication(now)
        if not self.only_looks:
            look_for_awaited(self._tables, self._connection, now, self.next_xid)
        if self.notices_tables:
            there = [each for each, table in progress.tables.items() if table.state != DROPPED]
            self.appeared |= new_members(self._connection, self._publications, there)
        self.topics.look()
        self._tables.versions.notice_types(progress.relation_ids, self._connection)
        trees = partition_trees(self._connection, progress.relation_ids)
        self.doubts.add(dict(identity_faults(trees)))

    def _state(self, relation_ids: Iterable[int]) -> PublicationState:
        """The state of the publications. Where archives are allowed, no operation counts as missing."""
        now = publication_state(self._connection, self._publications, relation_ids)
        return replace(now, missing_operations=()) if self._settings.postgres.archives else now

    def _notice_ddl_publication(self, now: PublicationState) -> None:
        if self._ddl_pace.is_due and not self.only_looks:
            with self._ddl_pace.look():
                found = ddl_publication(self._connection)
                self._tables.ddl_sessions.look(found, now.oldest_xid, now.lsn, self.next_xid)

    def is_renamed_at(self, lsn: Lsn) -> bool:
        """Whether ``take_renamed`` or ``take_altered`` returns something."""
        return self._altered.is_due_at(lsn) or self._names.is_due_at(lsn)

    def take_renamed(self, lsn: Lsn) -> dict[int, Name]:
        """The new names of tables of which no change after ``lsn`` has an earlier name. Each is returned once."""
        return self._names.take(lsn)

    def take_altered(self, lsn: Lsn) -> dict[int, AlteredTable]:
        """The altered tables of which no change after ``lsn`` has the earlier columns. Each is returned once a look."""
        return self._altered.take(lsn)

    def names_of(self, relation_ids: Iterable[int]) -> dict[int, Name]:
        """The names that these relations have now, as far as the catalogue has them."""
        return table_names(self._connection, relation_ids)

    def look_at(self, relation_id: int, xid: int) -> None:
        """Look at a table that the stream announced, before its first change is published.

        Args:
            xid: of the transaction, as the stream tells it.

        Raises:
            OperatorError, RetryableError: as ``look``.
        """
        self._look_at(relation_id, xid)
        self.storage.announce_key(relation_id)

    def _look_at(self, relation_id: int, xid: int) -> None:
        """Each table is looked at by itself, unless a look at all of them shows the transaction that is being read:
        what altered the table before is in that look, too."""
        is_shown = self._shown is not None and self._shown.contains_received(xid)
        if (
            is_shown
            and self.stream_facts.partitions.knows_all_partitions_of(relation_id)
            and not self.storage.awaits_relation(relation_id)
        ):
            return
        self._single_looks += 1
        if self._single_looks > _SINGLE_LOOKS_MAX:
            self.look()
            return
        baseline = Baseline.of(self._tracker.progress)
        if baseline is None:
            return
        now = self._state([relation_id])
        if now.missing_operations:
            self.look()  # which refuses that
        if baseline.has_same_publications(now):
            self._memberships.compare(baseline.of_table(relation_id), now)
        self._compare_storage([relation_id], _snapshot_of(now))

    def _compare_storage(self, relation_ids: Iterable[int], snapshot: Snapshot | None) -> None:
        """A table that the catalogue lacks leaves with the next cut, even if changes of it are still to come: it may
        have been altered before it was dropped, and nobody can say any more how (I8)."""
        missing = self.storage.compare(relation_ids, snapshot)
        self.missing_in_catalogue |= missing
        self._leaving.leave_with_next_cut(missing)

    def take_appeared(self) -> set[int]:
        """Relations that came to the publication. Each is returned once a look."""
        appeared, self.appeared = self.appeared, set()
        return appeared

    def next_xid(self) -> int:
        """``publication.next_xid``: an xid above those of all transactions that have written until now."""
        return next_xid(self._connection)

    def baseline_of(self, table: TableProgress) -> TableProgress:
        """The table with its topic and membership as they are now; the membership is None where it is no member.

        Raises:
            RetryableError: a server is away, or does not know the topic yet.
        """
        taken = self.baseline([table], self._connection).tables[table.relation_id]
        return self.stream_facts.with_unused_partitions(taken)

    def refuse_copy(self, table: PublishedTable) -> None:
        """Refuse to copy a table that cannot be followed as it is, or not all of whose rows are followed.

        Raises:
            OperatorError: why.
        """
        refuse_unfit(self._connection, self._settings, [table])
        refuse_foreign_rows(self._connection, self._settings, [table])

    def take_dropped(self, lsn: Lsn) -> set[int]:
        """Tables of which nothing comes after ``lsn``. Each is returned only once."""
        return self._leaving.take(lsn)
