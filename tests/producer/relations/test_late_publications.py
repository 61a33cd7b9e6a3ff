"""From which session on a publication is asked for: the server must find it wherever it decodes."""

from __future__ import annotations

from walbridge.producer.relations.late_publications import LatePublications
from walbridge.schemas.position import Lsn

OURS, ANOTHER = 16_500, 16_900


def sessions_that_saw(publication: int, *, oldest_xid: int) -> LatePublications[int]:
    """It was seen when the next xid was 800; the second look, at 0/C8, finds this oldest one."""
    sessions = LatePublications[int]()
    assert sessions.begin(publication, Lsn(100), is_as_before=False) is None
    sessions.look(publication, 790, Lsn(150), lambda: 800)
    sessions.look(publication, oldest_xid, Lsn(200), lambda: 999)
    return sessions


def test_session_that_finds_it_does_not_ask_for_it_while_older_transactions_run() -> None:
    sessions = sessions_that_saw(OURS, oldest_xid=799)
    assert sessions.next_session_lsn is None
    assert sessions.begin(OURS, Lsn(500), is_as_before=False) is None


def test_session_that_begins_behind_the_end_of_all_older_transactions_asks_for_it() -> None:
    sessions = sessions_that_saw(OURS, oldest_xid=800)
    assert sessions.next_session_lsn == 200
    assert sessions.begin(OURS, Lsn(199), is_as_before=False) is None
    assert sessions.begin(OURS, Lsn(200), is_as_before=False) == OURS
    assert sessions.next_session_lsn is None


def test_next_session_asks_again_and_so_does_one_of_another_process() -> None:
    sessions = LatePublications[int]()
    assert sessions.begin(OURS, Lsn(0), is_as_before=True) == OURS
    sessions.look(OURS, 900, Lsn(300), lambda: 900)
    assert sessions.next_session_lsn is None


def test_one_that_was_dropped_or_made_anew_is_not_asked_for_until_it_is_seen_long_enough() -> None:
    sessions = sessions_that_saw(OURS, oldest_xid=800)
    assert sessions.begin(None, Lsn(300), is_as_before=False) is None
    assert sessions.begin(ANOTHER, Lsn(300), is_as_before=False) is None
    sessions.look(ANOTHER, 900, Lsn(400), lambda: 950)
    sessions.look(None, 960, Lsn(410), lambda: 960)
    sessions.look(ANOTHER, 960, Lsn(420), lambda: 970)
    assert sessions.next_session_lsn is None


def test_session_that_ended_where_it_was_not_there_is_followed_by_one_that_begins_behind_that() -> None:
    """It had another name, and has its own again: it is the same publication."""
    sessions = LatePublications[int]()
    assert sessions.begin(OURS, Lsn(100), is_as_before=True) == OURS
    sessions.note_refused()
    assert sessions.begin(OURS, Lsn(100), is_as_before=True) is None
    sessions.look(OURS, 790, Lsn(150), lambda: 800)
    sessions.look(OURS, 800, Lsn(200), lambda: 999)
    assert sessions.next_session_lsn == 200
    assert sessions.begin(OURS, Lsn(200), is_as_before=False) == OURS
    assert sessions.begin(OURS, Lsn(300), is_as_before=True) == OURS
