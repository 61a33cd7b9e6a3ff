"""From which session on the publication that tells DDL is asked for: the server must find it wherever it decodes."""

from __future__ import annotations

from walbridge.producer.relations.ddl_sessions import DdlSessions
from walbridge.schemas.position import Lsn

OURS, ANOTHER = 16_500, 16_900


def sessions_that_saw(publication: int, *, oldest_xid: int) -> DdlSessions:
    """It was seen when the next xid was 800; the second look, at 0/C8, finds this oldest one."""
    sessions = DdlSessions()
    assert sessions.begin(None, publication, Lsn(100)) is None
    sessions.look(publication, 790, Lsn(150), lambda: 800)
    sessions.look(publication, oldest_xid, Lsn(200), lambda: 999)
    return sessions


def test_session_that_finds_it_does_not_ask_for_it_while_older_transactions_run() -> None:
    sessions = sessions_that_saw(OURS, oldest_xid=799)
    assert sessions.behind is None
    assert sessions.begin(None, OURS, Lsn(500)) is None


def test_session_that_begins_behind_the_end_of_all_older_transactions_asks_for_it() -> None:
    sessions = sessions_that_saw(OURS, oldest_xid=800)
    assert sessions.behind == 200
    assert sessions.begin(None, OURS, Lsn(199)) is None
    assert sessions.begin(None, OURS, Lsn(200)) == OURS
    assert sessions.behind is None


def test_next_session_asks_again_and_so_does_one_of_another_process() -> None:
    sessions = DdlSessions()
    assert sessions.begin(str(OURS), OURS, Lsn(0)) == OURS
    sessions.look(OURS, 900, Lsn(300), lambda: 900)
    assert sessions.behind is None


def test_one_that_was_dropped_or_made_anew_is_not_asked_for_until_it_is_seen_long_enough() -> None:
    sessions = sessions_that_saw(OURS, oldest_xid=800)
    assert sessions.begin(str(OURS), None, Lsn(300)) is None
    assert sessions.begin(str(OURS), ANOTHER, Lsn(300)) is None
    sessions.look(ANOTHER, 900, Lsn(400), lambda: 950)
    sessions.look(None, 960, Lsn(410), lambda: 960)
    sessions.look(ANOTHER, 960, Lsn(420), lambda: 970)
    assert sessions.behind is None


def test_session_that_ended_where_it_was_not_there_is_followed_by_one_that_begins_behind_that() -> None:
    """It had another name, and has its own again: it is the same publication."""
    sessions = DdlSessions()
    assert sessions.begin(str(OURS), OURS, Lsn(100)) == OURS
    sessions.doubt()
    assert sessions.begin(str(OURS), OURS, Lsn(100)) is None
    sessions.look(OURS, 790, Lsn(150), lambda: 800)
    sessions.look(OURS, 800, Lsn(200), lambda: 999)
    assert sessions.behind == 200
    assert sessions.begin(None, OURS, Lsn(200)) == OURS
    assert sessions.begin(str(OURS), OURS, Lsn(300)) == OURS
