"""In which sessions a root can be copied, before Postgres 15."""

from __future__ import annotations

from walbridge.producer.relations.partition_sessions import PartitionSessions
from walbridge.schemas.position import Lsn

ROOT, OTHER = 1, 2
BEFORE, AFTER = frozenset({(10, "700")}), frozenset({(10, "700"), (11, "750")})


def test_session_that_began_before_partitions_were_seen_does_not_know_them() -> None:
    """I8: changes of them may be left out."""
    sessions = PartitionSessions()
    sessions.begin(Lsn(100))
    assert not sessions.knows(ROOT, BEFORE, Lsn(150))
    assert sessions.next_session_lsn == 150
    assert not sessions.knows(ROOT, BEFORE, Lsn(170))
    assert sessions.next_session_lsn == 150


def test_session_that_begins_behind_that_look_knows_them_and_no_later_ones() -> None:
    sessions = PartitionSessions()
    sessions.begin(Lsn(100))
    sessions.knows(ROOT, BEFORE, Lsn(150))
    sessions.begin(Lsn(150))
    assert sessions.next_session_lsn is None
    assert sessions.knows(ROOT, BEFORE, Lsn(200))
    assert not sessions.knows(ROOT, AFTER, Lsn(210))
    assert sessions.next_session_lsn == 210


def test_one_session_is_begun_for_several_roots() -> None:
    sessions = PartitionSessions()
    sessions.begin(Lsn(100))
    for root, lsn in ((ROOT, 150), (OTHER, 160), (ROOT, 170)):
        assert not sessions.knows(root, BEFORE, Lsn(lsn))
    assert sessions.next_session_lsn == 160
