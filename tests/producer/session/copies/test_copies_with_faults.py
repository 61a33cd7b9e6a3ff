"""Postgres meets a fault of its own whenever a table is read: the table is given up, and all others flow (I8)."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.producer.copied_session import (
    COPIED,
    LATE,
    Copied,
    announcement,
    copied,
    copying,
    found,
    insert,
    published,
)
from tests.producer.session.copies.state.test_requested_tables import CURRENT, STALE, Asked
from walbridge.producer.copying.troubles import AGAIN_MAX
from walbridge.producer.postgres.copy_beside.copy_protocol import Failed, TablesFound, TablesWanted, TableWanted
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.schemas.control.table_request import COPY, TableRequest, to_copy
from walbridge.schemas.errors import OperatorError, ServerFault

FAULT = Failed(ServerFault("Postgres (XX000): cache lookup failed for type 7"))
BEGUN = copying("7")
OFTEN = tuple([int(time.time())] * AGAIN_MAX)


def fail(session: Copied) -> None:
    """The table is described, and that fails."""
    assert session.answer(TablesFound((published(),))) == TableWanted(published())
    session.answer(FAULT)


def test_table_at_which_the_server_fails_each_time_is_quarantined_until_an_operator_asks() -> None:
    with copied({**COPIED.tables, LATE: replace(STALE, name="public.late")}) as session:
        assert session.step() == TablesWanted()
        fail(session)
        for pause_s in (10, 20, 40, 80, 160, 300, 300, 300, 300, 300):
            assert session.tracker.progress.tables[LATE].state == "stale"
            assert session.pass_s(pause_s - 0.1) is None
            assert session.pass_s(0.2) == TablesWanted()
            fail(session)
        given_up = session.tracker.progress.tables[LATE]
        assert given_up.state == "quarantined"
        assert "the server meets a fault of its own: Postgres (XX000)" in (given_up.why or "")
        assert session.pass_s(300) is None
        Asked(session).ask(TableRequest(COPY, LATE))
        session.answer(TablesFound((published(),)))
        session.answer(found(lsn=session.kept_stream.received))
        assert session.table().state == "copying"


@pytest.mark.parametrize("policy", ["copy", "stop"])
def test_copy_that_has_begun_ends_where_the_server_fails_each_time(policy: str) -> None:
    """Its changes are published: a cut has to say that they are no more."""
    with copied({**BEGUN, LATE: replace(BEGUN[LATE], troubles=OFTEN)}) as session:
        session.kept_watch.doubts._stops = policy == "stop"
        session.transaction(announcement(), insert(9, "nine"))
        session.step()
        if policy == "stop":
            with pytest.raises(OperatorError, match="the server meets a fault of its own"):
                fail(session)
            return
        fail(session)
        session.transaction(insert(10, "ten"))
        session.rest()
        assert (session.table().state, session.kinds[-1]) == ("quarantined", "dropped")


def test_table_that_is_current_stays_so_where_the_server_fails_at_its_next_copy() -> None:
    """What the lake has of it is right."""
    standing: TableProgress = replace(CURRENT, troubles=OFTEN)
    with copied({**COPIED.tables, LATE: standing}) as session:
        session.transaction(announcement(), insert(1, "one"))
        Asked(session).ask(TableRequest(COPY, LATE))
        fail(session)
        known = session.tracker.progress.tables[LATE]
        assert (known.state, to_copy(session.tracker.progress)) == ("current", frozenset())
        assert (known.why or "").startswith("not copied again: each time that table public.late is read")
