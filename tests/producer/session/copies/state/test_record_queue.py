"""Records that wait on disk come out as they went in (I9)."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from walbridge.producer.encoding.kafka_record import KafkaRecord
from walbridge.producer.session.copies.state import record_queue
from walbridge.producer.session.copies.state.record_queue import QueueFull, RecordQueue

HEADERS = st.none() | st.builds(lambda name, value: [(name, value)], st.sampled_from(("new", "old")), st.binary())
RECORDS = st.builds(KafkaRecord, st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=200), HEADERS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=st.lists(st.none() | st.tuples(st.integers(3, 2**32 - 1), RECORDS), max_size=60))
def test_records_come_out_in_their_order_also_while_more_come(
    steps: list[tuple[int, KafkaRecord] | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_queue, "PIECE_BYTES", 100)
    queue, model = RecordQueue(str(tmp_path), lambda size: None), deque[tuple[int, KafkaRecord]]()
    for step in [*steps, *[None] * len(steps)]:
        if step is None:
            assert queue.take() == (model.popleft() if model else None)
        else:
            queue.append(*step)
            model.append(step)
        assert len(queue) == len(model)
    queue.close()
    assert list(tmp_path.iterdir()) == []


def test_queue_holds_no_more_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And gives back what it took once all is read."""
    monkeypatch.setattr(record_queue, "PIECE_BYTES", 100)

    def refuse_full(size: int) -> None:
        if size > 1_000:
            raise QueueFull(0)

    queue = RecordQueue(str(tmp_path), refuse_full)
    record = KafkaRecord(None, bytes(50))
    for _ in range(3):
        for _ in range(10):
            queue.append(3, record)
        while queue.take() is not None:
            pass
    assert queue.byte_count == 0
    while queue.byte_count + 140 <= 1_000:
        queue.append(3, record)
    queue.append(3, record)
    with pytest.raises(QueueFull):
        queue.append(3, record)
    queue.close()
