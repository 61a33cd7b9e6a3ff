"""What the log says of a read that holds vacuum back: before it, and while it goes on."""

from __future__ import annotations

from dataclasses import replace

from structlog.testing import capture_logs

from tests.producer.copied_session import LATE, copied, found, row, shown
from walbridge.producer.copying.copy_share import TableSize
from walbridge.producer.postgres.copy_beside.copy_protocol import RowsRead

SIZE = TableSize(rows=100, size_bytes=100 * 2**20)


def test_read_in_one_piece_is_told_with_its_size_and_time_before_it_and_what_is_left_while_it_goes_on() -> None:
    with copied() as session, capture_logs() as said:
        session.facts[LATE] = found(key_names=None).facts
        session.find(LATE)
        session.answer(replace(found(lsn=session.kept_stream.received, key_names=None), size=SIZE))
        session.answer(shown(), RowsRead(tuple(row(each, "read") for each in range(20)), 2**20))
        session.pass_s(15)
        session.pass_s(5)
        session.answer(RowsRead(tuple(row(each, "read") for each in range(20)), 200))
        session.pass_s(10)

    before, *during = (each for each in said if "holds vacuum back" in each["event"])
    assert (before["estimated_bytes"], before["estimated_seconds"]) == (SIZE.size_bytes, 6)
    told = [(each["seconds"], each["seconds_left"], each["estimated_bytes"]) for each in during]
    assert told == [(15, 60, SIZE.size_bytes), (30, 45, SIZE.size_bytes)]
    assert during[0]["bytes_read"] < during[1]["bytes_read"]


def test_time_of_a_read_that_the_settings_slow_down_is_told_by_their_rate() -> None:
    with copied() as session, capture_logs() as said:
        session.copies._whole._limits = session.copies._whole._limits.model_copy(update={"copy_bytes_per_s": 2**20})
        session.facts[LATE] = found(key_names=None).facts
        session.find(LATE)
        session.answer(replace(found(lsn=session.kept_stream.received, key_names=None), size=SIZE))

    (line,) = (each for each in said if "holds vacuum back" in each["event"])
    assert line["estimated_seconds"] == 101
