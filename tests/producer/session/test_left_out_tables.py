"""What remains of changes when a table is followed no more."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from tests.producer.streaming_progress import current
from tests.producer.written_record import KEYED, Written
from walbridge.producer.batch.open_batch import OpenBatch
from walbridge.producer.batch.progress import ProgressTracker
from walbridge.producer.encoding.transaction_source import TransactionSource
from walbridge.producer.errors.rows import UnknownValue
from walbridge.producer.kafka.control_topics import MetadataWriter
from walbridge.producer.kafka.publisher import Publisher
from walbridge.producer.pgoutput.messages import Begin, Delete, Insert, Truncate, Update
from walbridge.producer.relations.tables import Tables
from walbridge.producer.session.fast_path import FastPath
from walbridge.producer.session.followed_tables import FollowedTables
from walbridge.producer.session.left_out_tables import LeftOutTables
from walbridge.producer.session.transactions.session_relations import SessionRelations
from walbridge.producer.session.transactions.transaction import OpenTransaction, TransactionTracker
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import STALE, TableProgress
from walbridge.schemas.position import Lsn, Position
from walbridge.schemas.settings import Settings

OURS, OTHER = KEYED.relation_id, KEYED.relation_id + 1
REASON = UnknownValue("a value is missing", remedy="none")


BEGIN = Begin(Lsn(500), 7, 77)
INSIDE = OpenTransaction(BEGIN, False, None, TransactionSource.of(Lsn(500), 7, 77, None))


def batch(*left: int) -> OpenBatch:
    """Nothing is sent, so nobody sends."""
    tables = current(OURS, OTHER) | {each: TableProgress(each, STALE) for each in left}
    progress = Progress("streaming", "7", 1, "s", "shop", tables=tables)
    return OpenBatch(Settings(), cast(Publisher, None), cast(MetadataWriter, None), ProgressTracker(progress))


def left_out_of(out: OpenBatch) -> LeftOutTables:
    """Of a session to which no table was announced: it follows what progress does."""
    tables, fast_path = cast(Tables, None), cast(FastPath, SimpleNamespace(forget=lambda relation_id: None))
    followed = FollowedTables(tables, fast_path, cast(TransactionTracker, None), out.tracker.progress.relation_ids)
    return LeftOutTables(out, tables, cast(SessionRelations, None), followed)


def test_every_change_remains_while_all_tables_are_followed() -> None:
    changes = (
        Insert(OURS, b""),
        Update(OURS, None, None, b""),
        Delete(OURS, b"", None),
        Truncate(True, False, (OURS,)),
    )
    left_out = left_out_of(batch())
    assert [left_out.followed_part(change, INSIDE) for change in changes] == list(changes)


def test_changes_of_a_table_that_was_left_are_none_and_those_of_others_remain() -> None:
    out = batch()
    left_out = left_out_of(out)

    left_out.drop(Written(KEYED).record, Position(Lsn(7), 3), REASON)

    for change in (Insert(OURS, b""), Update(OURS, None, None, b""), Delete(OURS, b"", None)):
        assert left_out.followed_part(change, INSIDE) is None
    assert left_out.followed_part(Truncate(True, False, (OURS,)), INSIDE) is None
    assert left_out.followed_part(Truncate(True, False, (OURS, OTHER)), INSIDE) == Truncate(True, False, (OTHER,))
    assert left_out.followed_part(Insert(OTHER, b""), INSIDE) == Insert(OTHER, b"")


def test_batch_and_progress_say_from_where_on_a_table_was_left() -> None:
    """I8: the next session leaves it too."""
    out = batch(5)

    left_out_of(out).drop(Written(KEYED).record, Position(Lsn(7), 3), REASON)

    (barrier,) = out.batch.tables[OURS].barriers
    table = TableProgress(OURS, STALE, since=Lsn(7), why="a value is missing")
    assert (barrier.kind, barrier.position, out.batch.dropped) == ("dropped", Position(Lsn(7), 3), {OURS: table})
    out.tracker.committed(out.tracker.close(out.batch, (), 0, None, 0)[0])
    again = left_out_of(out)
    assert [again.followed_part(Insert(relation_id, b""), INSIDE) for relation_id in (5, OURS)] == [None, None]


def test_table_that_came_after_the_copy_and_was_left_waits_for_its_operator_as_any_other() -> None:
    """With a name in its record the next session would copy it at once, again and again."""
    out = batch()
    known = out.tracker.progress.tables[OURS]
    out.tracker.remember_tables({OURS: replace(known, name="public.late")})

    left_out_of(out).drop(Written(KEYED).record, Position(Lsn(7), 3), REASON)

    assert out.batch.dropped[OURS].name is None
