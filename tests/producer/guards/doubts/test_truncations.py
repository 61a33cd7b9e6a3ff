"""A new file is no doubt while the stream may still bring the TRUNCATE that made it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.producer.guards.test_source_watch import Watched
from tests.producer.kept import ITEMS, ORDERS
from walbridge.producer.guards.doubts import truncations
from walbridge.producer.postgres.facts import TableFile, TableStorage
from walbridge.schemas.control.table_progress import CURRENT, STALE
from walbridge.schemas.position import Lsn

SHORT = TableFile(ORDERS, 7, 0, 2)
"""Of a table without a TOAST table, which no publication names."""
EMPTIED = replace(SHORT, file=8, written_by_xid=750)
ROOT = TableFile(ORDERS, 0, 0, 2)
PARTITION = TableFile(20_001, 20_001, 0, 2, joined="700", was_created_as_partition=True)
SNAPSHOT = "{0}:{0}:"


class Emptied(Watched):
    """A session of which the catalogue shows new files; the stream has been read up to 400."""

    def __init__(self, *files: TableFile) -> None:
        super().__init__()
        self.storages = {ORDERS: TableStorage(files)}
        self.open()
        self.insert_lsn = Lsn(600)

    def see(self, *files: TableFile, lsn: int = 600, xid: int = 800) -> None:
        """Look and find these files, when ``xid`` is the next one."""
        self.storages = {ORDERS: TableStorage(files)}
        self.look(lsn=Lsn(lsn), snapshot=SNAPSHOT.format(xid))

    def waits(self, end: int = 400, received: int = 400) -> bool:
        return self.watched.may_be_explained(Lsn(end), Lsn(received))

    def told(self, end: int) -> bool:
        """Whether a cut that ends there calls the table stale."""
        return ORDERS in self.watched.doubts.take(Lsn(end))


@pytest.mark.parametrize(
    ("known", "new"), [(SHORT, EMPTIED), (PARTITION, replace(PARTITION, file=20_010, written_by_xid=750))]
)
def test_truncate_that_comes_behind_the_look_that_shows_its_file_ends_the_doubt(
    known: TableFile, new: TableFile
) -> None:
    """The stream brings a commit later than the catalogue shows it."""
    emptied = Emptied(ROOT, known) if known is PARTITION else Emptied(known)
    files = (ROOT, new) if known is PARTITION else (new,)
    emptied.see(*files)
    assert emptied.waits()
    emptied.watched.stream_facts.note_truncate([ORDERS], 750)
    with emptied.seen():
        emptied.watched.look_before_cut()
    assert not emptied.waits()
    assert not emptied.told(10**6)
    emptied.see(*files)
    assert not emptied.told(10**6)


def test_new_file_without_a_truncate_is_told_when_the_stream_has_passed_the_look() -> None:
    """I8: SET UNLOGGED and SET LOGGED, and rows in between, are not sent."""
    emptied = Emptied(SHORT)
    emptied.see(EMPTIED)
    emptied.watched.stream_facts.note_truncate([ITEMS], 750)
    assert emptied.waits(received=599)
    assert not emptied.waits(received=600)
    assert emptied.told(400)
    assert not emptied.told(400), "once"


def test_wait_for_a_truncate_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle server's stream may never reach where its WAL stands."""
    emptied = Emptied(SHORT)
    emptied.see(EMPTIED)
    monkeypatch.setattr(truncations, "WAIT_S", 0.0)
    assert not emptied.waits()
    assert emptied.told(400)


def test_another_new_file_is_waited_for_as_the_first_one_is() -> None:
    emptied = Emptied(SHORT)
    emptied.see(EMPTIED)
    emptied.insert_lsn = Lsn(700)
    emptied.see(replace(EMPTIED, file=9, written_by_xid=760))
    assert emptied.waits(received=699)
    assert not emptied.waits(received=700)


def test_cut_before_the_transaction_can_have_committed_says_nothing() -> None:
    """A stream that lags is far behind what the catalogue shows."""
    emptied = Emptied(SHORT)
    emptied.see(SHORT, lsn=500, xid=740)
    emptied.see(SHORT, lsn=550, xid=750)
    emptied.see(EMPTIED)
    assert not emptied.waits(end=500)
    assert not emptied.told(500)
    assert emptied.waits(end=501)
    assert emptied.told(501)


def test_transaction_that_a_look_found_begun_may_have_committed_before_it() -> None:
    """I8: a commit is in the WAL before it is visible."""
    emptied = Emptied(SHORT)
    emptied.see(SHORT, lsn=500, xid=740)
    emptied.see(SHORT, lsn=550, xid=751)
    emptied.see(EMPTIED)
    assert emptied.told(1)


def test_truncate_that_is_received_before_it_is_visible_explains_its_file_later() -> None:
    emptied = Emptied(SHORT)
    emptied.watched.stream_facts.note_truncate([ORDERS], 750)
    emptied.see(SHORT, xid=750)
    emptied.see(EMPTIED, xid=751)
    assert not emptied.told(10**6)
    emptied.see(replace(EMPTIED, file=9, written_by_xid=760), xid=761)
    assert emptied.told(10**6), "it explains one file only"


def test_file_with_other_columns_is_no_truncate() -> None:
    """I8: nothing that is to come explains it, so nothing is waited for."""
    emptied = Emptied(SHORT)
    emptied.see(replace(EMPTIED, columns="another"))
    assert not emptied.waits()
    assert emptied.told(1)


class Told(Emptied):
    """The source tells DDL in the stream."""

    def __init__(self, *files: TableFile) -> None:
        super().__init__(*files)
        self.watched.stream_facts.has_ddl_rows = True


LONG, REWRITTEN = TableFile(ORDERS, 7, 5, 2), TableFile(ORDERS, 8, 6, 2, written_by_xid=750)


@pytest.mark.parametrize(
    ("known", "now"),
    [((LONG,), (REWRITTEN,)), ((ROOT, PARTITION), (ROOT,)), ((ROOT,), (ROOT, replace(PARTITION, file=20_009)))],
)
def test_rewrite_or_other_partition_that_a_row_may_tell_is_waited_for(
    known: tuple[TableFile, ...], now: tuple[TableFile, ...]
) -> None:
    """I8: a cut before the row says that the table is stale, since nobody knows yet where that was."""
    told = Told(*known)
    told.see(*now)
    assert told.waits()
    assert not told.waits(received=600)
    assert told.told(10**6)
    untold = Emptied(*known)
    untold.see(*now)
    assert not untold.waits()
    assert untold.told(10**6)


def test_rewrite_that_a_row_may_tell_is_waited_for_also_beside_a_table_that_is_in_doubt_anyway() -> None:
    """Its copy would be a needless one."""
    told = Told(LONG)
    told.see(REWRITTEN)
    told.watched.doubts.add_unequal([ITEMS], {})
    assert told.waits()
    assert not told.waits(received=600)


def test_rewrite_that_is_told_to_change_no_row_ends_the_doubt() -> None:
    told = Told(LONG)
    told.see(REWRITTEN)
    told.watched.stream_facts.note_rewrite(ORDERS, LONG.file)
    told.watched.stream_facts.note_file_after_command(ORDERS, REWRITTEN.file)
    assert told.watched.stream_facts.is_look_due
    with told.seen():
        told.watched.look_before_cut()
    assert not told.waits()
    assert not told.told(10**6)


def test_partition_that_came_and_went_stays_a_doubt_until_the_stream_has_passed_the_look() -> None:
    """I8: what says so is a change of it, which comes once."""
    told = Told(ROOT)
    told.watched.stream_facts.note_partition_change(PARTITION.relation_id, ORDERS)
    told.see(ROOT)
    told.see(ROOT)
    assert told.watched.stream_facts.has_used_partition(ORDERS, {PARTITION.relation_id})
    assert told.told(10**6)


@pytest.mark.parametrize(("state", "is_told_again"), [(STALE, False), (CURRENT, True)])
def test_partition_that_came_and_went_is_no_doubt_about_a_copy_that_begins_behind_it(
    state: str, *, is_told_again: bool
) -> None:
    """Else each copy would be called stale as it is read, for ever; a table that is current meanwhile is not spared."""
    told = Told(ROOT)
    told.watched.stream_facts.note_partition_change(PARTITION.relation_id, ORDERS)
    told.see(ROOT)
    assert told.told(10**6)
    told.watched.stream_facts.with_unused_partitions(replace(told.tracker.progress.tables[ORDERS], state=state))
    told.see(ROOT)
    assert bool(told.told(10**6)) == is_told_again


def test_partitions_are_known_by_their_root() -> None:
    facts = Told(ROOT, PARTITION).watched.stream_facts
    assert facts.has_used_partition(ORDERS, {PARTITION.relation_id, 1})
    assert not facts.has_used_partition(ORDERS, {ORDERS, 1})
    assert not facts.has_used_partition(ITEMS, {PARTITION.relation_id})
