"""What is looked at beside the stream, and from where on a table is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.producer.kept import CONNECTION, ITEMS, ORDERS, SETTINGS, XID, Kept, catalogue, relation
from tests.producer.streaming_progress import STREAMING, current
from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.guards import look_pace, opening, source_now, source_watch, walsender_cache
from walbridge.producer.guards.baseline import Baseline
from walbridge.producer.guards.doubts import new_labels, partition_rows, storage_comparison
from walbridge.producer.guards.doubts.columns import added_values, altered_columns
from walbridge.producer.guards.look_pace import INTERVAL_S
from walbridge.producer.guards.news import altered_tables, memberships
from walbridge.producer.guards.source_watch import SourceWatch
from walbridge.producer.guards.topic_watch import refuse_unknown
from walbridge.producer.guards.unfit import unfit_tables
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.postgres.facts import AddedColumn, PublicationState, TableFile, TableStorage, UsedType
from walbridge.producer.postgres.storage.enum_labels import EnumLabel
from walbridge.schemas.control.table_progress import STALE
from walbridge.schemas.errors import KafkaAway, OperatorError
from walbridge.schemas.pg_types import TypeFacts
from walbridge.schemas.position import Lsn
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Producer

TOPICS = ("p.metadata", "p.cuts", "p.public.orders", "p.public.items")
MEMBERS = {ORDERS: "*", ITEMS: "*"}
STATE = PublicationState({"walbridge": 1}, (), MEMBERS, Lsn(500), "n", oldest_xid=80)
END = Lsn(10**6)
"""Of a cut that covers everything."""


class Watched(Kept):
    """A watch over two tables; ``now`` is the publication as the catalogue has it, ``looks`` what was looked at."""

    def __init__(self, settings: Settings = SETTINGS, *, announced: Collection[int] = (ORDERS, ITEMS)) -> None:
        super().__init__(settings=settings, progress=replace(STREAMING, tables=current(ORDERS, ITEMS)))
        self.now = STATE
        self.next_xid = 80
        self.ddl_publication: int | None = None
        self.insert_lsn = STATE.lsn
        self.generated: list[int] = []
        self.storages = {each: TableStorage((TableFile(each, each, 0, 2),)) for each in MEMBERS}
        self.empty: set[int] = set()
        self.added: list[AddedColumn] = []
        self.used: list[UsedType] = []
        self.enum_labels: dict[int, dict[bytes, EnumLabel]] = {}
        self.published: list[Any] | None = []
        self.looks: list[str] = []
        self.digest = 1, 1
        with catalogue():
            for relation_id in announced:
                self.tables.receive(relation(relation_id), announced, XID)
        self.watched = SourceWatch(settings, CONNECTION, cast(TopicAdmin, self.admin), self.tables, self.tracker)

    @contextmanager
    def seen(self, types: dict[int, TypeFacts] | None = None) -> Iterator[None]:
        def noted(what: str, value: Callable[[], Any]) -> Callable[..., Any]:
            def look(*_: object) -> Any:
                self.looks.append(what)
                return value()

            return look

        with catalogue(type_facts=lambda *_: types or {}), pytest.MonkeyPatch.context() as patch:
            for module in (source_now, walsender_cache):
                patch.setattr(module, "publication_state", noted("publication", lambda: self.now))
            for module in (source_now, walsender_cache):
                patch.setattr(module, "next_xid", noted("an xid is taken", lambda: self.next_xid))
            patch.setattr(source_watch, "ddl_publication", lambda *_: self.ddl_publication)
            patch.setattr(source_watch, "snapshot_xmax", lambda *_: self.next_xid)
            patch.setattr(memberships, "with_generated_columns", lambda *_: self.generated)
            patch.setattr(look_pace, "catalog_digest", lambda *_: self.digest)
            patch.setattr(source_now, "table_storages", lambda *_: self.storages)
            patch.setattr(storage_comparison, "table_storages", lambda _, asked, *__: self.storages_of(asked))
            patch.setattr(storage_comparison, "insert_lsn", lambda *_: self.insert_lsn)
            patch.setattr(added_values, "added_columns", lambda *_: self.added)
            patch.setattr(altered_columns, "used_types", lambda *_: self.used)
            patch.setattr(new_labels, "enum_labels", lambda *_: self.enum_labels)
            patch.setattr(partition_rows, "empty_of", lambda _, asked: self.empty & set(asked))
            patch.setattr(altered_tables, "tables_facts", noted("columns", lambda: ({}, None)))
            patch.setattr(source_watch, "partition_trees", noted("partitions", list))
            patch.setattr(opening, "published_tables_unless_locked", noted("published", lambda: self.published))
            patch.setattr(unfit_tables, "refuse_unreadable", noted("binary", lambda: None))
            patch.setattr(unfit_tables, "refuse_unfit_identities", noted("identities", lambda: None))
            yield

    def storages_of(self, asked: Collection[int]) -> dict[int, TableStorage]:
        return {each: storage for each, storage in self.storages.items() if each in asked}

    def open(self) -> None:
        with self.seen():
            self.watched.open()

    def look(self, **changed: Any) -> None:
        """The catalogue says this now. Every look is due, however long the last one took on a busy machine."""
        self.now = replace(STATE, **changed)
        with self.seen(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(look_pace, "_SHARE", 0)
            self.watched.look()


def opened() -> Watched:
    """A session whose baseline is what there was at its start."""
    watched = Watched()
    watched.open()
    return watched


def test_table_that_is_unfit_at_a_start_is_doubted_and_the_others_are_not() -> None:
    """I8: its changes would come in parts."""
    reason = OperatorError("has another replica identity", "none")
    watched = Watched()
    watched.published = [SimpleNamespace(relation_id=each) for each in (ORDERS, ITEMS)]

    def refuse(connection: object, settings: object, tables: list[Any]) -> None:
        if any(table.relation_id == ORDERS for table in tables):
            raise reason

    with watched.seen(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(unfit_tables, "refuse_unfit_identities", refuse)
        watched.watched.open()

    assert watched.watched.doubts.take(END) == {ORDERS: reason}


def test_operations_that_are_left_out_are_told_and_no_table_is_doubted_for_them() -> None:
    """I7: by its membership each table looks as if it had been taken out and put back, which a copy would mend."""
    watched = opened()

    with pytest.raises(OperatorError, match="does not publish update"):
        watched.look(missing_operations=("update",), members={ORDERS: "* without update", ITEMS: "* without update"})
    assert watched.watched.doubts.reasons == {}


def test_columns_are_looked_at_before_what_is_published_of_them_is_compared() -> None:
    """I8: else a look could find columns by a list that was altered after the comparison."""
    watched = opened()
    watched.looks.clear()

    watched.look()

    assert watched.looks.index("columns") < watched.looks.index("publication")


LEFT = {ITEMS: "*"}


@pytest.mark.parametrize("only_looks", [False, True])
def test_xid_is_taken_of_the_server_for_a_table_that_left_but_not_by_who_only_looks(only_looks: bool) -> None:
    watched = opened()
    watched.watched.only_looks = only_looks

    watched.look(members=LEFT)

    assert ("an xid is taken" in watched.looks) is not only_looks


def test_table_that_left_is_gone_from_where_the_wal_stood_when_nobody_wrote_to_it_any_more() -> None:
    """I7: what is open when it leaves may hold changes of it, which still come."""
    watched = opened()
    watched.next_xid = 82
    watched.look(members=LEFT, lsn=Lsn(600), oldest_xid=79)
    watched.next_xid = 90
    assert watched.watched.news.take_dropped(Lsn(10**6)) == set()
    watched.look(members=LEFT, lsn=Lsn(700), oldest_xid=81)
    assert watched.watched.news.take_dropped(Lsn(10**6)) == set()
    watched.look(members=LEFT, lsn=Lsn(800), oldest_xid=82)

    assert watched.watched.news.take_dropped(Lsn(799)) == set()
    assert watched.watched.news.take_dropped(Lsn(800)) == {ORDERS}


def test_table_that_left_is_told_once_and_from_the_first_such_place_on() -> None:
    watched = opened()
    watched.look(members=LEFT, lsn=Lsn(600))
    watched.look(members=LEFT, lsn=Lsn(900))

    assert [watched.watched.news.take_dropped(Lsn(600)) for _ in range(2)] == [{ORDERS}, set()]


def test_table_that_is_said_to_be_gone_is_not_gone_again() -> None:
    """Progress names it no more."""
    watched = opened()
    watched.look(members=LEFT, lsn=Lsn(600))
    watched.watched.news.take_dropped(Lsn(600))
    watched.tracker.committed(replace(watched.tracker.progress, tables=current(ITEMS)))
    watched.look(members=LEFT, lsn=Lsn(900))

    assert watched.watched.news.take_dropped(Lsn(10**6)) == set()


def test_table_that_is_gone_from_the_catalogue_leaves_with_the_next_cut() -> None:
    """I8: nobody knows what was done to it before. Where it left the publication alone, its changes still come."""
    watched = opened()
    del watched.storages[ORDERS]
    watched.look(members=LEFT, lsn=Lsn(600), oldest_xid=79)

    news = watched.watched.news
    assert (news.take_dropped(Lsn(1)), news.missing_in_catalogue) == ({ORDERS}, {ORDERS})


def test_new_name_holds_from_where_the_wal_stood_when_the_catalogue_showed_it() -> None:
    """All that was written under the name before is below it; told once, and not once the stream has told it."""
    watched, archive = opened(), {ORDERS: ("public", "archive"), ITEMS: ("public", "items")}
    watched.look(names=archive, lsn=Lsn(600))
    watched.look(names=archive, lsn=Lsn(900))

    assert [watched.watched.news.is_renamed_at(Lsn(lsn)) for lsn in (599, 600)] == [False, True]
    assert watched.watched.news.take_renamed(Lsn(599)) == {}
    assert [watched.watched.news.take_renamed(Lsn(600)) for _ in range(2)] == [{ORDERS: ("public", "archive")}, {}]


def test_name_that_a_table_has_again_is_not_told() -> None:
    watched = opened()
    watched.look(names={ORDERS: ("public", "archive")}, lsn=Lsn(600))
    watched.look(names={ORDERS: ("public", "orders")}, lsn=Lsn(700))

    assert watched.watched.news.take_renamed(Lsn(10**6)) == {}


def test_progress_without_a_baseline_gets_that_of_now() -> None:
    """I7: earlier code wrote none, and nothing can be compared without one."""
    found = Baseline.of(opened().tracker.progress)

    assert found is not None
    assert (found.publications, found.generated_columns) == (frozenset({1}), "n")
    assert {relation_id: table.membership for relation_id, table in found.tables.items()} == MEMBERS
    assert set(found.topics) == {"p.metadata", "p.cuts", "p.public.orders", "p.public.items"}


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (replace(STATE, oids={}), "was dropped"),
        (replace(STATE, oids={"walbridge": 2}), "made again"),
    ],
)
def test_session_does_not_begin_where_changes_may_be_missing(now: PublicationState, words: str) -> None:
    """I7"""
    watched = opened()
    watched.now = now
    with pytest.raises(OperatorError, match=words):
        watched.open()


def test_table_of_which_changes_may_be_missing_is_doubted_and_told_once() -> None:
    """I7, I8"""
    watched = opened()
    watched.look(members={ORDERS: "9", ITEMS: "*"})

    assert watched.watched.doubts
    assert {each: "taken out" in reason.what for each, reason in watched.watched.doubts.take(END).items()} == {
        ORDERS: True
    }
    assert not watched.watched.doubts


def test_table_that_came_back_is_doubted_and_left_no_more() -> None:
    """I8: it is copied again, and not said to be gone afterwards."""
    watched = opened()
    watched.look(members=LEFT, lsn=Lsn(600), oldest_xid=79)
    watched.look(members={ORDERS: "9", ITEMS: "*"}, lsn=Lsn(700))

    assert watched.watched.doubts.take(END).keys() == {ORDERS}
    assert watched.watched.news.take_dropped(Lsn(10**6)) == set()


def test_doubt_of_one_table_stops_all_where_settings_say_so() -> None:
    """I7"""
    watched = Watched(Settings(name="p", producer=Producer(on_table_error="stop")))
    watched.open()

    with pytest.raises(OperatorError, match="taken out"):
        watched.look(members={ORDERS: "9", ITEMS: "*"})


def test_generated_columns_that_are_published_now_put_their_tables_in_doubt_once() -> None:
    watched = opened()
    watched.generated = [ITEMS]
    watched.look(generated_columns="s")
    assert Baseline.of(watched.tracker.progress).generated_columns == "n"  # type: ignore[union-attr]

    assert watched.watched.doubts.take(END).keys() == {ITEMS}
    assert Baseline.of(watched.tracker.progress).generated_columns == "s"  # type: ignore[union-attr]
    watched.look(generated_columns="s")
    assert not watched.watched.doubts


def test_session_does_not_begin_over_a_topic_of_all_tables_that_was_made_again() -> None:
    """I7: it lacks what was in it."""
    watched = opened()
    watched.admin.ids["p.metadata"] = "another"

    with pytest.raises(OperatorError, match="made again"):
        watched.open()


def test_session_does_not_begin_where_the_metadata_topic_lacks_a_table() -> None:
    """I2: its events cannot be read."""
    with pytest.raises(OperatorError, match=str(ITEMS)):
        Watched(announced=(ORDERS,)).open()


def test_tables_with_a_record_each_are_known() -> None:
    refuse_unknown(Watched().tables, (ORDERS, ITEMS), "p.metadata")


def test_session_begins_with_a_look_at_everything() -> None:
    watched = Watched()
    watched.open()

    assert {"publication", "partitions", "published", "binary", "identities"} <= set(watched.looks)


def test_table_that_is_being_altered_is_no_reason_to_wait() -> None:
    """The stream itself refuses later what these looks would."""
    watched = Watched()
    watched.published = None
    watched.open()

    assert not {"binary", "identities"} & set(watched.looks)


def test_looks_are_taken_now_and_then_and_not_at_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = opened()
    watched.looks.clear()
    looked_s = watched.watched._pace.looked_s
    taken = []
    for passed_s in (0.0, INTERVAL_S - 1, INTERVAL_S):
        monkeypatch.setattr(time, "monotonic", lambda at_s=looked_s + passed_s: at_s)
        with watched.seen():
            watched.watched.look_if_due()
        taken.append(watched.looks.count("publication"))

    assert taken == [0, 0, 1]


def test_look_comes_before_each_cut_unless_looks_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """I8: what a cut says of a table is what the source says just then."""
    watched = opened()
    watched.looks.clear()
    taken = []
    for took_s, passed_s in ((0.01, 0.4), (0.01, 0.5), (100.0, INTERVAL_S - 1), (100.0, INTERVAL_S)):
        watched.watched._pace.took_s, looked_s = took_s, watched.watched._pace.looked_s
        monkeypatch.setattr(time, "monotonic", lambda at_s=looked_s + passed_s: at_s)
        with watched.seen():
            watched.watched.look_before_cut()
        taken.append(watched.looks.count("publication"))

    assert taken == [0, 1, 1, 2]


def test_look_that_takes_long_comes_before_a_cut_once_the_catalogue_is_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I8: also with hundreds of tables no cut says of one that was rewritten that it is current."""
    watched = opened()
    watched.looks.clear()
    looked_s, taken = watched.watched._pace.looked_s, []
    monkeypatch.setattr(time, "monotonic", lambda: looked_s + 1)
    for digest in ((1, 1), (1, 2), (1, 2)):
        watched.digest, watched.watched._pace.took_s = digest, 100.0
        with watched.seen():
            watched.watched.look_before_cut()
        taken.append(watched.looks.count("publication"))

    assert taken == [0, 1, 1]


def test_type_that_got_a_label_since_gets_a_new_version() -> None:
    """The stream tells no new label of an enum."""
    mood = TypeFacts(90_001, "public", "mood", "e", ("sad",))
    watched = opened()
    (column, *_) = relation().columns
    with catalogue(type_facts=lambda *_: {mood.oid: mood}):
        of_mood = replace(column, in_replica_identity=False, name="m", type_oid=mood.oid)
        watched.tables.receive(replace(relation(), columns=(column, of_mood)), MEMBERS, XID)
    with watched.seen({mood.oid: replace(mood, enum_labels=("sad", "ok"))}):
        watched.watched.look()

    assert [getattr(record, "version", None) for record in watched.metadata.records][-1] == 2


def test_progress_of_before_the_baseline_is_not_compared() -> None:
    watched = Watched()
    tracker = ProgressTracker(watched.progress)
    watch = SourceWatch(SETTINGS, CONNECTION, cast(TopicAdmin, watched.admin), watched.tables, tracker)
    watched.now = replace(STATE, oids={})
    with watched.seen():
        watch.look()

    assert watched.looks == []


def test_baseline_waits_for_topics_that_a_broker_does_not_know_yet() -> None:
    """I7: it is written once, and a topic that it lacks would never be compared."""
    watched = Watched()
    watched.admin.deleted = {*TOPICS} - {"p.metadata"}

    with pytest.raises(KafkaAway, match=r"p\.cuts"):
        watched.open()


def test_tables_of_other_publications_are_compared_as_those_tell_them() -> None:
    """I8: one that left with the publications of before leaves with the next cut, whatever was written since; one that
    both have may lack what was written before the new ones were there."""
    watched = opened()
    watched.tracker.remember_options({"publication_names": '"before"', "walbridge.publication": "7"})
    watched.now = replace(STATE, oids={"walbridge": 1}, members={ORDERS: "*"})
    watched.open()

    assert watched.watched.news.take_dropped(Lsn(1)) == {ITEMS}
    assert watched.watched.doubts.reasons.keys() == {ORDERS}
    assert watched.tracker.progress.options["walbridge.publication"] == "1"


def test_topic_ids_of_a_progress_of_format_1_go_to_the_records_of_tables() -> None:
    watched = opened()
    now = watched.tracker.progress
    tables = {each: replace(table, topic=None, topic_id=None) for each, table in now.tables.items()}
    topics = " ".join(f"{topic}:{found.topic_id}" for topic, found in watched.admin.describe(TOPICS).found().items())
    options = now.options | {"walbridge.topics": topics}
    watched.tracker.committed(replace(now, tables=tables, options=options, format_version=1))
    watched.open()

    assert watched.tracker.progress == replace(now, format_version=1)


def test_publication_that_tells_ddl_is_asked_for_behind_all_who_were_writing_when_it_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(look_pace, "_SHARE", 0)
    watched = opened()
    watched.ddl_publication, watched.next_xid = 17_000, 82
    watched.look(lsn=Lsn(600), oldest_xid=79)
    watched.look(lsn=Lsn(700), oldest_xid=81)
    assert watched.tables.ddl_sessions.next_session_lsn is None
    watched.look(lsn=Lsn(800), oldest_xid=82)
    assert watched.tables.ddl_sessions.next_session_lsn == 800


@pytest.mark.parametrize(("version", "waits"), [(120022, True), (170004, True), (170005, False)])
def test_table_that_came_is_copied_behind_all_who_were_writing_then_where_the_server_would_leave_it_out(
    version: int, *, waits: bool
) -> None:
    """I8. One that is current, and a member as before, may be copied at any time."""
    watched = opened()
    watched.watched.walsender_cache._connection = cast(
        Any, SimpleNamespace(info=SimpleNamespace(server_version=version))
    )
    table = watched.tracker.progress.tables[ORDERS]
    came = [replace(table, membership="16401@790"), replace(table, state=STALE)]
    watched.tracker.remember_tables({ORDERS: came[1]})

    with watched.seen():
        assert [watched.watched.walsender_cache.knows_membership_of(each) for each in came] == [not waits, not waits]
        watched.tracker.remember_tables({ORDERS: table})
        assert watched.watched.walsender_cache.knows_membership_of(table)


def test_who_only_looks_asks_for_no_xid_because_of_it() -> None:
    watched = opened()
    watched.watched.only_looks, watched.ddl_publication = True, 17_000
    watched.looks.clear()
    watched.look()
    assert "an xid is taken" not in watched.looks
