"""A change at which the server crashes is told from crashes of other processes by how far the streams come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walbridge.producer.postgres.server_crashes import Crash, ServerCrashes, crashes_known
from walbridge.schemas.control.progress_record import Progress, lost_option
from walbridge.schemas.errors import COPY_ALL, StreamLost
from walbridge.schemas.position import Lsn

PROGRESS = Progress("streaming", "1", 1, "s", "d", end_lsn=Lsn(90), done=Lsn(90))


def refused(crashes: ServerCrashes, progress: Progress = PROGRESS) -> StreamLost | None:
    try:
        crashes.refuse(progress)
    except StreamLost as lost:
        return lost
    return None


def remembered(lost: StreamLost, progress: Progress = PROGRESS) -> Progress:
    """What the start after the end of that process reads."""
    return replace(progress, options=lost_option(Lsn(200), lost.what, is_crash=lost.is_crash))


def test_third_crash_at_one_place_is_the_last() -> None:
    crashes = ServerCrashes()
    for pid in (11, 12):
        crashes.note(Crash(pid, Lsn(100)))
        assert refused(crashes) is None
    assert crashes.note(Crash(13, Lsn(100))) == 3

    lost = refused(crashes)

    assert lost is not None
    assert lost.is_in_wal
    assert lost.what == (
        "Postgres crashed 3 times in a row, with all of its sessions, while it decoded for slot s what follows 0/64; "
        "if it is for that, its log says of processes 11, 12, 13: was terminated by signal 11"
    )
    assert lost.remedy.endswith(f"ALTER TABLE ... DETACH PARTITION ... FINALIZE ends it; then {COPY_ALL}")
    assert "walbridge produce --try-again; or if not" in lost.remedy


@pytest.mark.parametrize(
    ("reached", "counts"),
    [
        ([100, 101, 102, 103], [1, 1, 1, 1]),
        ([100, 100, 101, 101], [1, 2, 1, 2]),
        ([100, 90, 100], [1, 2, 3]),
        ([101, 100, 101], [1, 2, 3]),
    ],
    ids=["each further", "one further", "one not as far", "not beyond the furthest"],
)
def test_stream_that_comes_further_begins_the_count_anew(reached: list[int], counts: list[int]) -> None:
    crashes = ServerCrashes()
    assert [crashes.note(Crash(1, Lsn(lsn))) for lsn in reached] == counts


def test_more_of_one_transaction_counts_as_further() -> None:
    crashes = ServerCrashes()
    assert [crashes.note(Crash(1, Lsn(100), done)) for done in (0, 500, 1000, 1000)] == [1, 1, 1, 2]


def test_new_epoch_leaves_the_crashes_behind() -> None:
    crashes = ServerCrashes()
    for _ in range(3):
        crashes.note(Crash(1, Lsn(100)))
    assert refused(crashes, replace(PROGRESS, end_lsn=Lsn(300), done=Lsn(300))) is None
    assert refused(crashes) is None


def crashed_three_times() -> StreamLost:
    crashes = ServerCrashes()
    for _ in range(3):
        crashes.note(Crash(1, Lsn(100)))
    lost = refused(crashes)
    assert lost is not None
    return lost


def test_next_start_refuses_without_another_crash_in_the_same_words() -> None:
    lost = crashed_three_times()
    again = refused(ServerCrashes(), remembered(lost))
    assert again is not None
    assert (again.what, again.remedy, again.is_in_wal) == (lost.what, lost.remedy, False)


def test_start_that_tries_again_ends_at_its_first_crash() -> None:
    progress = remembered(crashed_three_times())
    crashes = ServerCrashes(tries_again=True)
    assert refused(crashes, progress) is None
    crashes.note(Crash(14, Lsn(100)))

    lost = refused(crashes, progress)

    assert lost is not None
    assert lost.what.startswith("Postgres crashed again, with all of its sessions")
    assert "its log says of process 14: " in lost.what


def test_start_that_tries_again_has_three_crashes_once_it_has_come_beyond() -> None:
    progress = replace(remembered(crashed_three_times()), end_lsn=Lsn(201), done=Lsn(201))
    assert crashes_known(progress) is None
    crashes = ServerCrashes(tries_again=True)
    crashes.note(Crash(14, Lsn(201)))
    assert refused(crashes, progress) is None


def test_stream_that_ended_with_an_error_may_begin_again() -> None:
    """Whoever mends a filter needs no leave to start."""
    progress = replace(PROGRESS, options=lost_option(Lsn(200), "cannot be decoded"))
    assert crashes_known(progress) is None
    assert refused(ServerCrashes(), progress) is None
