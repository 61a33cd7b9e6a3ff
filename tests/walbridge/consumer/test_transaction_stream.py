"""``poll`` of whole transactions ends in time, whatever the cuts hold."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.walbridge.consumer.test_cut_groups import OTHER, cut
from walbridge.consumer import cut_reader, transaction_stream
from walbridge.consumer.relations import Relations
from walbridge.consumer.transaction_stream import TransactionStream
from walbridge.consumer.wanted_tables import WantedTables
from walbridge.schemas.control.cut import encode_cut

CUTS_MAX = 20_000


class Backlog:
    """Brings cuts without end, none of which has a wanted table."""

    def __init__(self, kafka: Any) -> None:
        self._numbers = count(1)

    def assign(self, places: Any) -> None:
        """From the first one on."""

    def poll(self, timeout_s: float) -> Any:
        number = next(self._numbers)
        assert number < CUTS_MAX, "poll goes on and on"
        value = encode_cut(cut(number, 0, 0, relation=OTHER))
        return SimpleNamespace(error=lambda: None, offset=lambda: number, value=lambda: value)


def test_poll_returns_in_time_from_a_backlog_of_cuts_without_wanted_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the cuts that it passed are passed for good."""
    for module in (cut_reader, transaction_stream):
        monkeypatch.setattr(module, "reader", Backlog)
    monkeypatch.setattr(cut_reader, "TopicIds", lambda kafka: SimpleNamespace(of=lambda topics: {}))
    relations = SimpleNamespace(version=None, key_schema=None, read_to=lambda offset: None)
    wanted = SimpleNamespace(has=lambda relation_id, topic: False, refresh=lambda: None)
    stream = TransactionStream(
        {}, "p", cast(Relations, relations), cast(WantedTables, wanted), {("p.cuts", 0): 1}, {}, follow=True
    )
    for timeout_s in (0, 0.05):
        before = stream.offsets["p.cuts", 0]
        assert stream.poll(timeout_s) is None
        assert stream.offsets["p.cuts", 0] > before
