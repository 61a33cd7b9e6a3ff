"""Changes of a table that came after the copy: left out, alike in every replay, and said to be so (I4, I7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.producer.kept import ITEMS, ORDERS, relation
from tests.producer.kept_session import BEGIN, COMMIT, COPIED, insert, streamed
from walbridge.producer.pgoutput.messages import Begin, Commit, Relation, Truncate
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn

LATE = 16_400


def late(name: str = "late") -> Relation:
    return relation(LATE, name=name)


def test_table_that_came_after_the_copy_is_left_out_and_told_with_the_cut_that_passes_it() -> None:
    """I4, I7: what is left out takes no ordinal, and Kafka says so before anything of it is confirmed."""
    with streamed() as session:
        session.feed(BEGIN, late(), insert(1, LATE), insert(2), insert(3, LATE), insert(4, ITEMS))
        session.feed(Truncate(False, False, (LATE, ORDERS)), Truncate(False, False, (LATE,)), COMMIT)
        session.rest()
        assert len(session.kafka.batches) == 1
        session.feed(Begin(Lsn(540), 7, 78), insert(5, LATE), insert(6), Commit(Lsn(540), Lsn(580), 7))
        session.rest()

    assert session.events == [
        ("orders", "c", 2, 500, 0), ("items", "c", 4, 500, 1),
        ("orders", "t", None, 500, 2), ("orders", "c", 6, 540, 0),
    ]  # fmt: skip
    stale = TableProgress(LATE, "stale", name="public.late", since=Lsn(500), why="added after the copy")
    assert [batch.progress.tables[LATE] for batch in session.kafka.batches] == [stale, stale]
    assert session.happened.index("commit") < session.happened.index("confirm 540")


def test_table_made_again_under_the_name_of_a_copied_one_is_told_as_such() -> None:
    with streamed() as session:
        session.feed(BEGIN, late("orders"), insert(1, LATE), COMMIT)
        session.hear(560)
        session.session._cuts.idle_cut(is_requested=True)

    assert session.events == []
    assert session.last.progress.tables[LATE].why == "made again under its name"


def test_table_that_was_left_out_before_is_left_out_without_another_word() -> None:
    """Of a later session: it need not even be announced."""
    stale = TableProgress(LATE, "stale", name="public.late", since=Lsn(150), why="added after the copy")
    with streamed(replace(COPIED, tables={**COPIED.tables, LATE: stale})) as session:
        session.feed(BEGIN, insert(1, LATE), insert(2), COMMIT)
        session.rest()

    assert session.events == [("orders", "c", 2, 500, 0)]
    assert session.last.progress.tables[LATE] == stale


def test_change_of_a_table_that_was_never_announced_is_refused() -> None:
    """I7: nobody knows what it is."""
    with streamed() as session, pytest.raises(OperatorError, match="did not announce"):
        session.feed(BEGIN, insert(1, LATE))


def test_left_out_changes_are_hashed_like_all_others() -> None:
    """I4: a restart counts what was received, whichever was published."""
    with streamed(rows_max=2) as session:
        session.feed(BEGIN, late(), insert(1, LATE), insert(2), insert(3, LATE), insert(4))

    split = session.last.progress.split
    assert split is not None
    assert (split.messages_done, split.next_ordinal) == (4, 2)
    assert session.last.progress.tables[LATE].state == "stale"
