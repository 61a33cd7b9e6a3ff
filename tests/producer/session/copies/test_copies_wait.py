"""A copy that waits for somebody at the source tells so, and how to find who that is, a line every 10 s."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog

from tests.producer.copied_session import LATE, XID, Copied, copied, found, insert, shown
from tests.producer.session.copies.told import KEYLESS
from walbridge.producer.postgres.copy_beside.copy_protocol import Failed, TablesWanted, WholeWanted
from walbridge.schemas.errors import TableLocked


@contextmanager
def by_chunks() -> Iterator[Copied]:
    with copied() as session:
        session.begin()
        yield session


@contextmanager
def in_one_piece() -> Iterator[Copied]:
    with copied() as session:
        session.facts[LATE] = found(key_names=None).facts
        session.find(LATE)
        assert isinstance(
            session.answer(found(lsn=session.kept_stream.received, key_names=None)),
            WholeWanted,
        )
        yield session


def waits_of(session: Copied, xmin: int, *in_progress: int, seconds: int) -> list[Any]:
    """What is told while each second brings such a snapshot."""
    with structlog.testing.capture_logs() as lines:
        for _ in range(seconds):
            session.answer(shown(xmin, *in_progress, xmax=XID + 50))
            session.pass_s(1)
    return [line for line in lines if line["event"] == "copy of a table waits"]


@pytest.mark.parametrize("begun", [by_chunks, in_one_piece])
def test_copy_that_is_held_by_a_forgotten_transaction_tells_who_holds_it_every_10_s(begun: Any) -> None:
    with begun() as session:
        waits = waits_of(session, XID - 5, XID - 5, seconds=25)
        assert len(waits) == 3
        assert {(line["table"], line["log_level"]) for line in waits} == {("public.late", "warning")}
        assert f"pg_stat_activity WHERE backend_xid = '{XID - 5}'" in waits[0]["remedy"]
        assert f"pg_prepared_xacts WHERE transaction = '{XID - 5}'" in waits[0]["remedy"]
        assert "pg_terminate_backend" in waits[0]["remedy"]


def test_copy_that_waits_for_a_commit_to_be_visible_tells_its_standby() -> None:
    """Nobody is to end that one: it is committed."""
    with in_one_piece() as session:
        session.answer(shown(XID - 5, XID - 5))
        session.transaction(KEYLESS, insert(1, "one"), xid=XID + 7)
        session.pass_s(10)
        (wait,) = waits_of(session, XID + 7, XID + 7, seconds=1)
        assert f"backend_xid = '{XID + 7}'" in wait["remedy"]
        assert "synchronous standby" in wait["remedy"]
        assert "pg_terminate_backend" not in wait["remedy"]


def test_copies_that_cannot_begin_while_a_table_is_altered_tell_who_may_alter_it() -> None:
    with copied() as session, structlog.testing.capture_logs() as lines:
        session.copies.notice(LATE)
        for _ in range(25):
            assert session.pass_s(1) == TablesWanted()
            session.answer(Failed(TableLocked("a published table is locked by another session")))
    waits = [line for line in lines if line["event"] == "copies of tables wait to begin"]
    assert len(waits) == 3
    assert "AccessExclusiveLock" in waits[0]["remedy"]
