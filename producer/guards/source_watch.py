"""Checks that the source still sends what it was asked for: at the start of each session, and now and then.

In: the catalogue, the broker, the baseline in progress. Out: tables that left the publication, each once the stream can
hold no more changes of it; doubts about tables of which changes may be missing. If changes of all tables may be
missing, an error ends the session (I7). Types that changed get a new version in the metadata topic.
"""

from collections.abc import Iterable

from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.copying.visibility import Snapshot
from walbridge.producer.guards.baseline import Baseline, refuse_lost_publications
from walbridge.producer.guards.doubts.doubts import Doubts
from walbridge.producer.guards.doubts.storage_comparison import StorageComparison
from walbridge.producer.guards.doubts.stream_facts import StreamFacts
from walbridge.producer.guards.look_pace import CatalogPace, LookPace
from walbridge.producer.guards.news.altered_tables import AlteredTables
from walbridge.producer.guards.news.memberships import Memberships
from walbridge.producer.guards.news.table_news import TableNews
from walbridge.producer.guards.news.told_places import ToldPlaces
from walbridge.producer.guards.opening import begin_sessions, compare_topics, remember_baseline, unfit_of
from walbridge.producer.guards.other_publications import look_for_awaited
from walbridge.producer.guards.source_now import SourceNow
from walbridge.producer.guards.topic_watch import TopicWatch
from walbridge.producer.guards.unfit.foreign_rows import compare_origin
from walbridge.producer.guards.unfit.partitions import identity_faults
from walbridge.producer.guards.walsender_cache import WalsenderCache
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.producer.postgres.facts import PublicationState
from walbridge.producer.postgres.partitions import partition_trees
from walbridge.producer.postgres.publications.ddl_publication import ddl_publication
from walbridge.producer.postgres.publications.publication import new_members, snapshot_xmax
from walbridge.producer.relations.tables import Tables
from walbridge.schemas.control.table_progress import DROPPED
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings

_SINGLE_LOOKS_MAX = 3
"""The number of looks at single tables between two looks at all of them."""


def _snapshot_of(state: PublicationState) -> Snapshot | None:
    return Snapshot.parse(state.snapshot) if state.snapshot else None


class SourceWatch:
    """Watches the source for one session."""

    def __init__(
        self, settings: Settings, connection: SqlConnection, admin: TopicAdmin, tables: Tables, tracker: ProgressTracker
    ) -> None:
        self._settings, self._connection = settings, connection
        self._tables, self._tracker = tables, tracker
        self._publications = settings.postgres.publication_names
        self._pace = CatalogPace(connection, lambda: tracker.progress.relation_ids)
        self._ddl_pace = LookPace()
        self.news = TableNews(AlteredTables(self._publications, connection, tables))
        self.doubts = Doubts(settings, tables, tracker)
        self.stream_facts = StreamFacts(settings, connection, tables, tracker, self.doubts)
        self.storage = StorageComparison(settings, connection, tables, tracker, self.stream_facts, self.doubts)
        self.now = SourceNow(settings, connection, admin, tables, self.stream_facts)
        self._memberships = Memberships(connection, tables, tracker, self.doubts)
        self.told_places = ToldPlaces(connection, tables, tracker)
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

    def open(self) -> None:
        """Check topics, publication and identities at the start of a session; take a baseline where there is none.

        Raises:
            OperatorError: something is gone or was made anew, or changes would come in parts.
            RetryableError: a server is away.
        """
        progress = self._tracker.progress
        begin_sessions(self._tables, progress)
        self.stream_facts.has_ddl_rows = self._tables.ddl_sessions.asked is not None
        # What replication brought is left out with origin none, and so are rows about it.
        is_all_sent = self._settings.postgres.origin != "none"
        self.told_places.open(self._tables.ddl_sessions.asked if is_all_sent else None)
        left = remember_baseline(self._settings, self._tables, self._tracker, self.now)
        self.news.leaving.leave_with_next_cut(left)
        self.drops_before_stream = bool(left)
        compare_topics(self._settings, self._tables, progress, self.topics)
        compare_origin(self._connection, self._settings, self._tables, self._tracker, self.doubts)
        self.look()
        undoubted = {*progress.relation_ids}.difference(self.doubts.reasons)
        self.doubts.add(unfit_of(self._settings, self._connection, undoubted))

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
            baseline = Baseline.of(self._tracker.progress)
            if baseline is not None:
                self._look(baseline)

    def _look(self, baseline: Baseline) -> None:
        progress = self._tracker.progress
        # Before the memberships: what is published of an altered table must be what they are compared by. Before the
        # files: if the value of older rows was cleared in the catalogue since, the files show a rewrite.
        self.news.altered.look_if_due(progress.relation_ids, is_altered=self._pace.is_altered)
        now = self.now.publications(progress.relation_ids)
        refuse_lost_publications(progress, self._publications, now, self._tables.awaited_publications)
        left = baseline.no_longer_published(self._publications, now)  # first, since it refuses lost operations
        self.news.leaving.note_members(now.members.keys())
        self._memberships.compare(baseline, now)
        self._shown, self._single_looks = _snapshot_of(now), 0
        self._compare_storage(progress.relation_ids, self._shown)
        self.storage.note_look(now, self._shown)
        now = self._note_left(left & set(progress.relation_ids), now)
        self.news.names.note_look(now.names, now.lsn, self._tables.writers.name_of)
        self._look_for_other_publications(now)
        if self.notices_tables:
            there = [each for each, table in progress.tables.items() if table.state != DROPPED]
            self.news.appeared |= new_members(self._connection, self._publications, there)
        self.topics.look()
        self._tables.versions.notice_types(progress.relation_ids, self._connection)
        trees = partition_trees(self._connection, progress.relation_ids)
        self.doubts.add(dict(identity_faults(trees)))

    def _note_left(self, left: set[int], now: PublicationState) -> PublicationState:
        """Note the followed tables that the publications do not have now; returns the state that was seen last."""
        leaving = {each for each in left if not self.news.leaving.is_dated(each)}
        if new := self.news.leaving.not_noted(leaving):
            next_xid = snapshot_xmax(self._connection) if self.only_looks else self.now.next_xid()
            self.news.leaving.note_left(new, next_xid)
            # After that xid was assigned: only a later look can show that all transactions below it have ended.
            now = self.now.publications(self._tracker.progress.relation_ids)
        self.news.leaving.note_look(leaving, now.oldest_xid, now.lsn)
        return now

    def _look_for_other_publications(self, state: PublicationState) -> None:
        """Look for those that a later session is to ask for: one that tells DDL, and what settings name."""
        if self.only_looks:
            return
        if self._ddl_pace.is_due:
            with self._ddl_pace.look():
                found = ddl_publication(self._connection)
                self._tables.ddl_sessions.look(found, state.oldest_xid, state.lsn, self.now.next_xid)
                self.told_places.look(self._tracker.progress.relation_ids)
        look_for_awaited(self._tables, self._connection, state, self.now.next_xid)

    def look_at(self, relation_id: int, xid: int) -> None:
        """Look at a table that the stream announced, before its first change is published.

        Args:
            xid: of the transaction, as the stream tells it.

        Raises:
            OperatorError, RetryableError: as ``look``.
        """
        if not self._is_known(relation_id, xid):
            self._single_looks += 1
            if self._single_looks > _SINGLE_LOOKS_MAX:
                self.look()
            else:
                self._look_at(relation_id)
        self.storage.announce_key(relation_id)

    def _is_known(self, relation_id: int, xid: int) -> bool:
        """Whether a look at all tables shows the transaction that is being read: what altered the table before is in
        that look, too."""
        return (
            self._shown is not None
            and self._shown.contains_received(xid)
            and self.stream_facts.partitions.knows_all_partitions_of(relation_id)
            and not self.storage.awaits_relation(relation_id)
        )

    def _look_at(self, relation_id: int) -> None:
        baseline = Baseline.of(self._tracker.progress)
        if baseline is None:
            return
        now = self.now.publications([relation_id])
        if now.missing_operations:
            self.look()  # which refuses that
        if baseline.has_same_publications(now):
            self._memberships.compare(baseline.of_table(relation_id), now)
        self._compare_storage([relation_id], _snapshot_of(now))

    def _compare_storage(self, relation_ids: Iterable[int], snapshot: Snapshot | None) -> None:
        self.news.note_missing(self.storage.compare(relation_ids, snapshot))
