"""Changes of a chunk's window laid over the rows that were read (I6, I8)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.producer.pgoutput.encoder import tuple_data
from tests.producer.written_record import FULL, KEYED, KEYLESS, NULL, TEXT_KEYED, UNCHANGED, Written
from walbridge.producer.copying.row_keys import RowKeys
from walbridge.producer.copying.visibility import ReceivedTransactions, Snapshot
from walbridge.producer.copying.window import Void, Window
from walbridge.producer.pgoutput.messages import Binary, Change, Delete, Field, Insert, Truncate, Update
from walbridge.schemas.position import Lsn
from walbridge.schemas.table_schema import TableSchema

R = 16_384
SEEN, LACKED = 150, 200
"""Xids of transactions that the snapshot contains, and that it lacks."""
SNAPSHOT = Snapshot.parse("200:200:")
TRUNCATE = Truncate(cascade=False, restart_identity=False, relation_ids=(R,))


def row(key: bytes, name: Field = b"n", big: Field = b"big") -> bytes:
    return tuple_data(key, name, big)


def old_key(key: bytes) -> bytes:
    return tuple_data(key, NULL, NULL)


def insert(key: bytes, *cells: Field) -> Change:
    return Insert(R, row(key, *cells))


def update(key: bytes, *cells: Field) -> Change:
    return Update(R, None, None, row(key, *cells))


def move(old: bytes, new: bytes, *cells: Field) -> Change:
    return Update(R, old_key(old), None, row(new, *cells))


def delete(key: bytes) -> Change:
    return Delete(R, old_key(key), None)


class Chunk:
    """A window over a table of id, name and big, with its keys."""

    def __init__(self, table: TableSchema = KEYED, bytes_max: int = 2**20) -> None:
        self.keys = RowKeys.of(Written(table).writer)
        self.window = Window(self.keys, ReceivedTransactions(begun=100).before(), bytes_max)

    def key(self, text: bytes) -> bytes:
        key = self.keys.key_of(old_key(text))
        assert key is not None
        return key

    def receive(self, *changes: Change, xid: int = LACKED) -> Chunk:
        for change in changes:
            self.window.receive(xid, change)
        return self

    def show(self) -> Chunk:
        self.window.show(SNAPSHOT)
        self.window.finish_reading(Lsn(500))
        return self

    def at_end(self, *read: bytes) -> set[bytes]:
        """Tuples as of E; each comes with its key."""
        pairs = [(self._key_of(each), each) for each in read]
        out = list(self.window.rows_at_end(pairs))
        assert all(key == self._key_of(each) for key, each in out)
        assert len({key for key, _ in out}) == len(out)
        return {each for _, each in out}

    def _key_of(self, data: bytes) -> bytes:
        key = self.keys.key_of(data)
        assert key is not None
        return key


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], [row(b"1"), row(b"2")]),
        ([update(b"1", b"x", b"y")], [row(b"1", b"x", b"y"), row(b"2")]),
        ([update(b"1", b"x", UNCHANGED)], [row(b"1", b"x"), row(b"2")]),
        ([update(b"1", b"x", b"y"), update(b"1", b"z", UNCHANGED)], [row(b"1", b"z", b"y"), row(b"2")]),
        ([delete(b"1")], [row(b"2")]),
        ([move(b"1", b"7", b"x", UNCHANGED)], [row(b"7", b"x"), row(b"2")]),
        ([move(b"1", b"7", b"x", UNCHANGED), delete(b"7")], [row(b"2")]),
        (
            [move(b"1", b"7", b"x", UNCHANGED), move(b"2", b"1", b"y", UNCHANGED), move(b"7", b"2", b"z", UNCHANGED)],
            [row(b"1", b"y"), row(b"2", b"z")],
        ),
        ([delete(b"1"), move(b"2", b"1", b"x", UNCHANGED)], [row(b"1", b"x")]),
        # What the topic holds from the stream is not sent again.
        ([insert(b"7")], [row(b"1"), row(b"2")]),
        ([move(b"1", b"7", b"x", b"y")], [row(b"2")]),
        ([update(b"7", b"x", UNCHANGED)], [row(b"1"), row(b"2")]),
        ([delete(b"7")], [row(b"1"), row(b"2")]),
        # But for a row whose value another row had that the topic may show no consumer.
        ([insert(b"7", b"x", b"y"), move(b"7", b"8", b"z", UNCHANGED)], [row(b"1"), row(b"2"), row(b"8", b"z", b"y")]),
    ],
)
@pytest.mark.parametrize("is_shown_first", [True, False])
def test_rows_are_those_of_the_end(changes: Sequence[Change], expected: list[bytes], is_shown_first: bool) -> None:
    """The snapshot becomes known before its window's changes come, or after them."""
    chunk = Chunk()
    if is_shown_first:
        chunk.show().receive(*changes)
    else:
        chunk.receive(*changes).show()

    assert chunk.at_end(row(b"1"), row(b"2")) == set(expected)
    assert chunk.window.read_again == {}


@pytest.mark.parametrize("is_shown_first", [True, False])
def test_changes_that_the_snapshot_contains_are_in_the_rows_already(is_shown_first: bool) -> None:
    """They may be older than the row that was read."""
    changes = [update(b"1", b"old", b"old"), delete(b"2"), TRUNCATE]
    chunk = Chunk()
    if is_shown_first:
        chunk.show().receive(*changes, xid=SEEN)
    else:
        chunk.receive(*changes, xid=SEEN).show()

    assert chunk.window.void is None
    assert chunk.at_end(row(b"1"), row(b"2")) == {row(b"1"), row(b"2")}


@pytest.mark.parametrize(
    "changes",
    [
        [move(b"7", b"8", b"x", UNCHANGED)],
        [move(b"7", b"8", b"x", UNCHANGED), update(b"8", b"y", UNCHANGED)],
        [move(b"7", b"9", b"x", UNCHANGED), move(b"9", b"8", b"y", UNCHANGED)],
        [move(b"1", b"5", b"x", b"y"), delete(b"5"), move(b"7", b"8", b"x", UNCHANGED)],
    ],
)
def test_row_that_came_with_unknown_values_from_elsewhere_is_read_again(changes: list[Change]) -> None:
    chunk = Chunk().receive(*changes).show()

    assert row(b"8", b"x") not in chunk.at_end(row(b"1"))
    assert chunk.window.read_again == {chunk.key(b"8"): old_key(b"8")}


@pytest.mark.parametrize("end", [delete(b"8"), update(b"8", b"y", b"z"), move(b"8", b"9", b"y", b"z")])
def test_row_that_went_or_became_known_is_not_read_again(end: Change) -> None:
    chunk = Chunk().receive(move(b"7", b"8", b"x", UNCHANGED), end).show()

    assert chunk.at_end() == set()
    assert chunk.window.read_again == {}


def test_value_of_a_row_that_left_its_key_is_not_that_of_the_next_one_there() -> None:
    """1 went to 9, and another row came to 1, of which the large value is nowhere (I6)."""
    chunk = Chunk()
    chunk.receive(move(b"1", b"9", b"x", b"y"), move(b"7", b"1", b"z", UNCHANGED), update(b"1", b"w", UNCHANGED)).show()

    assert chunk.at_end(row(b"1", b"n", b"wrong")) == set()
    assert chunk.window.read_again == {chunk.key(b"1"): old_key(b"1")}


def test_moved_rows_that_are_sent_whole_are_told() -> None:
    """Their keys are on the list of those to read again."""
    chunk = Chunk().receive(move(b"1", b"7", b"x", UNCHANGED), update(b"2", b"x", UNCHANGED)).show()

    chunk.at_end(row(b"1"), row(b"2"))

    assert chunk.window.moved == {chunk.key(b"7")}
    assert chunk.window.touched == {chunk.key(b"1"), chunk.key(b"2"), chunk.key(b"7")}


def test_value_in_binary_is_taken_from_a_row_in_text() -> None:
    """A binary session's changes over rows of COPY: one key in both, one tuple of both."""
    changed = tuple_data(Binary(b"\x00\x00\x00\x01"), Binary(b"x"), UNCHANGED)
    window = Window(RowKeys(lambda _: b"one", (True, False, False)), ReceivedTransactions(begun=100).before())
    window.receive(LACKED, Update(R, None, None, changed))
    window.show(SNAPSHOT)
    window.finish_reading(Lsn(500))

    assert list(window.rows_at_end([(b"one", row(b"1"))])) == [
        (b"one", tuple_data(Binary(b"\x00\x00\x00\x01"), Binary(b"x"), b"big"))
    ]


def test_full_identity_tells_unchanged_values_by_the_old_row() -> None:
    chunk = Chunk(FULL)
    chunk.receive(Update(R, None, row(b"7", b"n", b"of 7"), row(b"1", b"x", UNCHANGED)))
    chunk.receive(Delete(R, None, row(b"2"))).show()

    # The stream told the whole row of 1.
    assert chunk.at_end(row(b"2"), row(b"3")) == {row(b"3")}
    assert chunk.window.read_again == {}


def test_key_that_is_stored_out_of_line_comes_as_an_old_key_that_is_the_same() -> None:
    chunk = Chunk(TEXT_KEYED)
    unchanged_key = Update(R, old_key(b"long"), None, tuple_data(UNCHANGED, b"x", UNCHANGED))

    assert chunk.receive(unchanged_key).show().at_end(row(b"long")) == {row(b"long", b"x")}


@pytest.mark.parametrize(
    ("table", "change"),
    [
        (FULL, update(b"1", b"x", b"y")),  # its old row may have had another key
        (TEXT_KEYED, Update(R, None, None, tuple_data(UNCHANGED, b"x", b"y"))),
        (KEYED, Delete(R, None, None)),
    ],
)
def test_change_that_does_not_tell_its_key_voids_the_chunk(table: TableSchema, change: Change) -> None:
    assert Chunk(table).receive(change).show().window.void is Void.KEY_NOT_SENT


@pytest.mark.parametrize("is_shown_first", [True, False])
def test_truncate_that_the_snapshot_lacks_voids_the_chunk(is_shown_first: bool) -> None:
    chunk = Chunk()
    if is_shown_first:
        chunk.show().receive(TRUNCATE)
    else:
        chunk.receive(TRUNCATE).show()

    assert chunk.window.void is Void.TRUNCATED
    assert not chunk.window.is_read(Lsn(10**9))


@pytest.mark.parametrize("is_shown_first", [True, False])
def test_window_is_bounded_in_bytes(is_shown_first: bool) -> None:
    """Beyond that it is void, and holds nothing (I9)."""
    chunk = Chunk(bytes_max=10_000)
    if is_shown_first:
        chunk.show()
    chunk.receive(*[update(b"1", b"x" * 1_000, b"y")] * 5)
    assert chunk.window.void is None

    chunk.receive(*[update(b"1", b"x" * 1_000, b"y")] * 10)

    assert chunk.window.void is Void.TOO_LARGE


def test_what_the_snapshot_contains_takes_no_room_in_the_window() -> None:
    chunk = Chunk(bytes_max=10_000)
    chunk.receive(*[update(b"1", b"x" * 1_000, b"y")] * 5, xid=SEEN).show()
    chunk.receive(*[update(b"1", b"x" * 1_000, b"y")] * 5, xid=SEEN)

    chunk.receive(*[update(b"1", b"x" * 1_000, b"y")] * 5)

    assert chunk.window.void is None


def test_chunk_is_void_while_a_commit_that_was_received_before_is_not_visible() -> None:
    received = ReceivedTransactions(begun=100)
    received.receive(150)
    window = Window(Chunk().keys, received.before())

    window.show(Snapshot.parse("150:160:150"))

    assert window.void is Void.NOT_VISIBLE


def test_chunk_is_void_while_a_transaction_is_open_that_was_before_the_session() -> None:
    window = Window(Chunk().keys, ReceivedTransactions(begun=100).before())

    window.show(Snapshot.parse("99:160:99"))

    assert window.void is Void.IN_PROGRESS


@pytest.mark.parametrize("why", [Void.ALTERED, Void.LEFT])
def test_first_reason_for_which_a_chunk_is_void_stays(why: Void) -> None:
    chunk = Chunk().show()

    chunk.window.spoil(why)
    chunk.receive(TRUNCATE)

    assert chunk.window.void is why


def test_chunk_enters_once_the_stream_was_received_up_to_where_its_rows_are_in_the_wal() -> None:
    chunk = Chunk()
    chunk.window.show(SNAPSHOT)
    assert not chunk.window.is_read(Lsn(10**9))  # its rows are still being read

    chunk.window.finish_reading(Lsn(500))

    assert [chunk.window.is_read(Lsn(lsn)) for lsn in (499, 500, 501)] == [False, True, True]


def test_rows_that_were_not_touched_pass_one_by_one() -> None:
    """They are not gathered: only those of touched keys are (I9)."""
    chunk = Chunk().receive(update(b"1", b"x", b"y")).show()
    read = iter([(chunk.key(each), row(each)) for each in (b"1", b"2", b"3")])

    assert next(chunk.window.rows_at_end(read)) == (chunk.key(b"2"), row(b"2"))
    assert next(read) == (chunk.key(b"3"), row(b"3"))


def test_table_without_a_key_has_no_window() -> None:
    with pytest.raises(AssertionError, match="has no key"):
        RowKeys.of(Written(KEYLESS).writer)
