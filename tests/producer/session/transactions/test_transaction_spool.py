"""The spool: what is in it comes out again, in bounded memory and disk, and nobody else reads it."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES, wal_start
from walbridge.producer.session.transactions import transaction_spool as spools
from walbridge.producer.session.transactions.transaction_spool import BUFFERED_BYTES_MAX, PIECE_BYTES, Spool, Spooled
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Producer

ROOT = Path(__file__).parents[4]


def spool_of(folder: Path, limit_bytes: int = 2**30) -> Spool:
    made = Spool(Settings(producer=Producer(spool_dir=str(folder), spool_bytes_max=limit_bytes)))
    made.open()
    return made


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = spool_of(tmp_path)
    yield made
    made.close()


def files(folder: Path) -> list[Path]:
    """Of transactions, whatever process they are of."""
    return [path for path in folder.glob("walbridge-spool-*/*") if path.name != "lock"]


def payloads(spooled: Spooled) -> list[bytes]:
    return [frame[XLOG_DATA_HEADER_BYTES:] for frame in spooled.frames(lambda: None)]


@given(
    records=st.lists(st.tuples(st.integers(0, 3), st.binary(min_size=1, max_size=40)), max_size=30),
    aborted=st.sets(st.integers(0, 3)),
    piece_bytes=st.integers(1, 64),
)
@settings(max_examples=examples(100), deadline=None)
def test_what_was_not_aborted_comes_out_in_its_order_however_it_is_cut(
    records: list[tuple[int, bytes]], aborted: set[int], piece_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spools, "PIECE_BYTES", piece_bytes)
        spool = spool_of(tmp_path_factory.getbasetemp())
        spooled = spool.add()
        for xid, payload in records:
            spooled.append(xid, payload)
        spooled.aborted |= aborted

        assert payloads(spooled) == [payload for xid, payload in records if xid not in aborted]
        spool.close()


def test_frames_have_the_header_of_a_streamed_message(spool: Spool) -> None:
    """So that everything behind the spool takes them for frames."""
    spooled = spool.add()
    spooled.append(1, b"Ixyz", 0x1_0000_0002)
    (frame,) = spooled.frames(lambda: None)

    assert frame[:1] == b"w"
    assert wal_start(frame) == 0x1_0000_0002
    assert frame[XLOG_DATA_HEADER_BYTES:] == b"Ixyz"


def test_transaction_stands_in_the_wal_where_its_first_change_does(spool: Spool) -> None:
    """A Relation has no place there."""
    spooled = spool.add()
    for lsn in (0, 7, 0, 9):
        spooled.append(1, b"Ixyz", lsn)
    assert spooled.first_lsn == 7


def test_small_transactions_never_touch_the_disk(spool: Spool, tmp_path: Path) -> None:
    spooled = spool.add()
    spooled.append(1, b"x" * 1000)
    spool.balance()

    assert files(tmp_path) == []
    assert payloads(spooled) == [b"x" * 1000]


def test_thousand_transactions_at_once_take_few_files_and_bounded_memory(spool: Spool, tmp_path: Path) -> None:
    """I9"""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    here = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (here + 20, limits[1]))
    try:
        transactions = [spool.add() for _ in range(1000)]
        for block in range(4):
            for n, spooled in enumerate(transactions):
                spooled.append(n, b"%d %d" % (block, n) + b"." * 4000)
                spool.balance()
                assert sum(each.buffered_bytes for each in transactions) <= BUFFERED_BYTES_MAX
        found = [payloads(spooled) for spooled in transactions]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert [[payload.rstrip(b".") for payload in each] for each in found] == [
        [b"%d %d" % (block, n) for block in range(4)] for n in range(1000)
    ]
    assert len(files(tmp_path)) == 1000


def test_nobody_else_may_read_it(spool: Spool, tmp_path: Path) -> None:
    """I10: it holds rows."""
    spool.add().append(1, b"x" * PIECE_BYTES)
    (file,) = files(tmp_path)

    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_transaction_that_is_through_leaves_no_file(spool: Spool, tmp_path: Path) -> None:
    spooled = spool.add()
    spooled.append(1, b"x" * PIECE_BYTES)
    spooled.remove()

    assert files(tmp_path) == []
    assert spool.byte_count == 0


def test_new_session_begins_with_an_empty_spool(spool: Spool, tmp_path: Path) -> None:
    for _ in range(3):
        spool.add().append(1, b"x" * PIECE_BYTES)
    spool.clear()

    assert files(tmp_path) == []
    assert spool.byte_count == 0


def test_process_that_ends_leaves_nothing(tmp_path: Path) -> None:
    spool = spool_of(tmp_path)
    spool.add().append(1, b"x" * PIECE_BYTES)
    spool.close()

    assert list(tmp_path.iterdir()) == []


_DIES = """
import os, sys
from walbridge.producer.session.transactions.transaction_spool import Spool
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Producer
spool = Spool(Settings(producer=Producer(spool_dir=sys.argv[1])))
spool.open()
spool.add().append(1, b"x" * 2**20)
os._exit(137)
"""


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    living = spool_of(tmp_path)
    spooled = living.add()
    spooled.append(1, b"y" * PIECE_BYTES)
    dead = subprocess.run([sys.executable, "-c", _DIES, str(tmp_path)], cwd=ROOT, check=False)
    assert dead.returncode == 137
    assert len(files(tmp_path)) == 2
    spool_of(tmp_path).close()

    assert len(files(tmp_path)) == 1
    assert payloads(spooled) == [b"y" * PIECE_BYTES]
    living.close()


def test_limit_is_refused_by_name_with_what_is_used(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, limit_bytes=3 * 2**20)
    spooled = spool.add()
    for _ in range(3):
        spooled.append(1, b"x" * (PIECE_BYTES - 16))
    with pytest.raises(OperatorError, match=r"4,194,305 bytes.* 3,145,728") as refused:
        spooled.append(1, b"x" * (PIECE_BYTES - 15))
    assert "spool_bytes_max" in refused.value.remedy
    assert "streaming" in refused.value.remedy
    spool.close()


def test_limit_counts_what_is_not_written_yet(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, limit_bytes=2**20)
    for _ in range(3):
        spool.add().append(1, b"x" * 500_000)
    with pytest.raises(OperatorError, match="3 transactions"):
        spool.balance()
    spool.close()


def test_folder_that_cannot_be_written_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot be kept") as refused:
        spool_of(tmp_path / "missing")
    assert "spool_dir" in refused.value.remedy


def test_disk_that_is_full_is_refused_in_words(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    spooled = spool.add()
    monkeypatch.setattr(spools, "open", _no_space, raising=False)
    with pytest.raises(OperatorError, match="No space left"):
        spooled.append(1, b"x" * PIECE_BYTES)


def _no_space(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_file_that_was_removed_is_refused_in_words(spool: Spool, tmp_path: Path) -> None:
    spooled = spool.add()
    spooled.append(1, b"x" * PIECE_BYTES)
    for file in files(tmp_path):
        file.unlink()
    with pytest.raises(OperatorError, match="cannot be kept"):
        payloads(spooled)


def test_file_that_was_cut_is_refused_in_words(spool: Spool, tmp_path: Path) -> None:
    """I7: also between two messages, where what is left reads well."""
    spooled = spool.add()
    for _ in range(2):
        spooled.append(1, b"x" * PIECE_BYTES)
    for file in files(tmp_path):
        with file.open("r+b") as opened:
            opened.truncate(file.stat().st_size // 2)
    with pytest.raises(OperatorError, match="a file in it was cut"):
        payloads(spooled)


def test_transactions_that_follow_each_other_have_a_file_each(spool: Spool) -> None:
    """One that ended gives its place to nobody who might be read for it."""
    first, second = spool.add(), spool.add()
    for spooled, body in ((first, b"1"), (second, b"2")):
        spooled.append(1, body * PIECE_BYTES)

    assert [payloads(each)[0][:1] for each in (first, second)] == [b"1", b"2"]


def test_relations_of_a_subtransaction_that_was_aborted_are_not_among_the_arrivals(spool: Spool) -> None:
    spooled = spool.add()
    spooled.arrivals = [(7, 1), (8, 2), (7, 3)]
    spooled.aborted.add(8)

    assert list(spooled.arrivals_left()) == [1, 3]
