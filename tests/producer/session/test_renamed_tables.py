"""Names that no Relation told: a version with the same topic and a barrier, in the cut from which on they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.producer.kept import INT4, ITEMS, ORDERS, TEXT, XID, AtCut, Kept, catalogue, relation
from tests.producer.streaming_progress import STREAMING, current
from walbridge.producer.batch.cut_maker import CutMaker
from walbridge.producer.errors.compaction import compacted_without_values
from walbridge.producer.errors.tables import UnfitTable, column_uncertain
from walbridge.producer.guards.news.altered_tables import AlteredTable
from walbridge.producer.postgres.facts import ColumnFacts, PublishedTable, TableFacts
from walbridge.producer.registry.refusals import UnfitSchema
from walbridge.producer.session.fast_path import FastPath
from walbridge.producer.session.renamed_tables import RenamedTables
from walbridge.producer.session.transactions.transaction import TransactionTracker
from walbridge.schemas.control.cut import Barrier, TableChanges
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.table_schema import TableSchema

ARCHIVE = ("public", "archive")
AS_ANNOUNCED = TableFacts(
    "d",
    (
        ColumnFacts("id", INT4, -1, 1, False, True, True, None),
        ColumnFacts("note", TEXT, -1, 2, True, False, False, None),
    ),
    2,
)


class Prepared:
    oldest_prepared_lsn = None


class Renaming(Kept):
    """A session that two followed tables were announced to, behind its last cut."""

    def __init__(self) -> None:
        super().__init__(progress=replace(STREAMING, tables=current(ORDERS, ITEMS)))
        self.announce(ORDERS, "orders")
        self.announce(ITEMS, "items")
        renamed = RenamedTables(
            self.tables,
            self.out,
            self.watch,
            FastPath(self.out, TransactionTracker(STREAMING.done, None)),
        )
        self.maker = CutMaker(
            0,
            self.stream,
            self.tables,
            self.out,
            self.watch,
            Prepared(),
            AtCut(before_cut_at=renamed.announce),
        )
        self.kept_stream.received = STREAMING.end_lsn

    def announce(self, relation_id: int, name: str) -> None:
        with catalogue({ORDERS: AS_ANNOUNCED}):
            self.tables.receive(relation(relation_id, name=name), (ORDERS, ITEMS), XID)

    def cut(self) -> list[TableChanges]:
        """What the next idle cut says of tables; nothing where there is none."""
        batches = len(self.kafka.batches)
        self.maker.idle_cut()
        new = self.kafka.batches[batches:]
        return [table for batch in new if batch.cut is not None for table in batch.cut.tables]


def test_name_that_the_catalogue_told_has_a_version_in_the_same_topic_and_a_barrier_at_the_end_of_the_cut() -> None:
    """Also where the server has nothing new, since it tells of a commit before its catalogue shows it."""
    session = Renaming()
    session.kept_watch.renamed = {ORDERS: ARCHIVE}
    (changes,) = session.cut()

    version = session.tables.writers.of(ORDERS).relation
    assert (version.topic, version.table.qualified_name) == ("p.public.orders", "public.archive")
    barrier = Barrier("shape", Position(STREAMING.end_lsn, 0), version.schema_id)
    assert (changes.relation_id, changes.topic, changes.barriers) == (ORDERS, "p.public.orders", (barrier,))
    assert session.cut() == []


def test_name_that_the_stream_told_meanwhile_is_not_told_again() -> None:
    session = Renaming()
    session.announce(ORDERS, "archive")
    session.kept_watch.renamed = {ORDERS: ARCHIVE}

    assert session.cut() == []


@pytest.mark.parametrize("state", ["copying", "stale", "dropped"])
def test_table_that_is_not_current_is_not_renamed(state: str) -> None:
    """A copy asks itself what its table is called; nothing is published of the others."""
    session = Renaming()
    tables = session.tracker.progress.tables
    session.tracker.remember_tables({ORDERS: replace(tables[ORDERS], state=state)})
    session.kept_watch.renamed = {ORDERS: ARCHIVE}

    assert session.cut() == []


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({ORDERS: ARCHIVE}, ["public.archive"]),
        ({ORDERS: ("public", "items")}, ["public.items"]),
        ({}, []),
        ({ORDERS: ("public", "orders")}, []),
    ],
    ids=["called otherwise", "swapped", "dropped", "called so again since"],
)
def test_table_whose_name_another_one_has_got_is_asked_for_in_the_same_cut(
    names: dict[int, tuple[str, str]], told: list[str]
) -> None:
    """The stream tells a swap of names table by table, each when it is written to."""
    session = Renaming()
    session.announce(ITEMS, "orders")
    session.kept_watch.names = names
    session.out.open()
    session.out.batch.end_lsn = Lsn(STREAMING.end_lsn + 100)
    session.maker.close()

    cut = session.last.cut
    assert cut is not None
    if told:
        (table,) = cut.tables
        assert table.relation_id == ORDERS
        assert session.tables.writers.of(ORDERS).relation.table.qualified_name in told
    else:
        assert cut.tables == ()


def altered(session: Renaming, *names: str) -> AlteredTable:
    """What the catalogue says: these columns, each with the number of its place."""
    columns = tuple(
        ColumnFacts(name, 23, -1, place, False, place == 1, place == 1, None) for place, name in enumerate(names, 1)
    )
    known = session.tables.writers.current_version(ORDERS)
    assert known is not None
    table = PublishedTable(ORDERS, "public", "orders", "d", names, None, False)
    return AlteredTable(known, table, TableFacts("d", columns, len(names)), {}, Lsn(0))


def test_columns_that_the_catalogue_told_have_a_version_and_a_barrier_at_the_end_of_the_cut() -> None:
    session = Renaming()
    session.kept_watch.altered = {ORDERS: altered(session, "id", "new")}
    (changes,) = session.cut()

    version = session.tables.writers.of(ORDERS).relation
    assert [column.name for column in version.table.columns] == ["id", "new"]
    barrier = Barrier("shape", Position(STREAMING.end_lsn, 0), version.schema_id)
    assert (changes.relation_id, changes.topic, changes.barriers) == (ORDERS, "p.public.orders", (barrier,))
    assert session.cut() == []


def test_columns_that_the_catalogue_told_have_the_numbers_that_stand_there() -> None:
    """By their order alone, ``c`` would be what ``note`` was, if that is not published any more (I8)."""
    session = Renaming()
    found = altered(session, "id", "note", "c")
    session.kept_watch.altered = {ORDERS: replace(found, table=replace(found.table, column_names=("id", "c")))}
    session.cut()

    columns = session.tables.writers.of(ORDERS).relation.table.columns
    assert [(column.name, column.attnum) for column in columns] == [("id", 1), ("c", 3)]


def test_columns_are_not_told_of_a_table_of_which_the_stream_told_more_since() -> None:
    session = Renaming()
    session.kept_watch.altered = {ORDERS: altered(session, "id", "new")}
    session.announce(ORDERS, "archive")
    assert session.cut() == []


@pytest.mark.parametrize("state", ["copying", "stale", "dropped"])
def test_columns_are_not_told_of_a_table_that_is_not_current(state: str) -> None:
    session = Renaming()
    tables = session.tracker.progress.tables
    session.tracker.remember_tables({ORDERS: replace(tables[ORDERS], state=state)})
    session.kept_watch.altered = {ORDERS: altered(session, "id", "new")}
    assert session.cut() == []


@pytest.mark.parametrize("what", ["renamed", "altered"])
def test_table_whose_new_schema_the_registry_refuses_is_doubted_once(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: else each look would ask again, and nobody would be told before its next change."""
    session = Renaming()
    reason = UnfitSchema("refused", "allow it")

    def refuse(record: object) -> None:
        raise reason

    monkeypatch.setattr(session.tables.registry, "framed", refuse)
    setattr(session.kept_watch, what, {ORDERS: ARCHIVE if what == "renamed" else altered(session, "id", "new")})
    session.cut()

    assert session.kept_watch.doubts.reasons == {ORDERS: reason}


@pytest.mark.parametrize(
    "reason",
    [
        column_uncertain("public.orders", "c"),
        compacted_without_values(TableSchema(ORDERS, "public", "orders", "d", ()), ["c"]),
    ],
    ids=["uncertain", "compacted"],
)
def test_table_whose_columns_cannot_be_told_is_doubted_though_nobody_writes_it(
    reason: UnfitTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: without a change of it there is no Relation that would say so, and it would be current without its column."""
    session = Renaming()

    def refuse(table: object) -> None:
        raise reason

    monkeypatch.setattr(session.tables.topics, "refuse_uncompactable", refuse)
    session.kept_watch.altered = {ORDERS: altered(session, "id", "note", "c")}
    session.cut()

    assert session.kept_watch.doubts.reasons == {ORDERS: reason}
