"""In which sessions a table can be copied whose publication was altered, on servers that remember what was before."""

from __future__ import annotations

import pytest

from walbridge.producer.relations.publication_sessions import PublicationSessions, remembers_what_was_published
from walbridge.schemas.position import Lsn

TABLE, OTHER = 1, 2


class Source:
    """Transactions below ``oldest`` have ended; each question for an xid gives 700."""

    def __init__(self) -> None:
        self.sessions = PublicationSessions()
        self.oldest = 690

    def knows(self, lsn: int, membership: str = "16401@680", table: int = TABLE) -> bool:
        return self.sessions.knows(table, membership, self.oldest, Lsn(lsn), lambda: 700)


def test_table_waits_for_a_session_behind_the_end_of_all_who_were_writing_when_it_was_found() -> None:
    """I8: one of them is decoded as of before, and nothing of the table comes from then on."""
    source = Source()
    source.sessions.begin(Lsn(100))
    assert [source.knows(150), source.knows(160), source.sessions.next_session_lsn] == [False, False, None]
    source.oldest = 700
    assert [source.knows(170), source.sessions.next_session_lsn] == [False, 170]
    assert [source.knows(180), source.sessions.next_session_lsn] == [False, 170]
    source.sessions.begin(Lsn(169))
    assert [source.knows(190), source.sessions.next_session_lsn] == [False, 170]
    source.sessions.begin(Lsn(170))
    assert [source.sessions.next_session_lsn, source.knows(200), source.sessions.next_session_lsn] == [None, True, None]


def test_table_whose_membership_is_another_waits_again() -> None:
    source = Source()
    source.oldest = 700
    source.sessions.begin(Lsn(100))
    source.knows(110)
    source.knows(120)
    source.sessions.begin(Lsn(130))
    assert source.knows(140)
    assert [source.knows(150, "16401@710"), source.knows(160, "16401@710")] == [False, False]
    assert source.sessions.next_session_lsn == 160


def test_one_session_is_begun_for_several_tables() -> None:
    source = Source()
    source.oldest = 700
    source.sessions.begin(Lsn(100))
    for table, lsn in ((TABLE, 150), (OTHER, 155), (TABLE, 160), (OTHER, 165)):
        assert not source.knows(lsn, table=table)
    assert source.sessions.next_session_lsn == 165


REMEMBER = (120022, 130020, 140017, 150012, 160008, 170004)
FORGET = (130021, 140018, 150013, 160009, 170005, 180000, 190000)


@pytest.mark.parametrize("version", [*REMEMBER, *FORGET])
def test_servers_that_remember_are_those_before_the_minors_of_may_2025(version: int) -> None:
    assert remembers_what_was_published(version) == (version in REMEMBER)
