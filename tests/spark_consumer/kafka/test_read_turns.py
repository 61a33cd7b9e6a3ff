"""One read of Kafka at a time (I9): a copy that is read in pieces lets plans read between two of them."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

import pytest

from tests.wait import wait_until
from walbridge.spark_consumer.kafka.copied_records import pieces
from walbridge.spark_consumer.kafka.driver_heap import ReadTurns

WAIT_S = 60.0


def reader(turn: AbstractContextManager[None], name: str, order: list[str]) -> threading.Thread:
    def read() -> None:
        with turn:
            order.append(name)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def test_a_plan_that_waits_reads_before_the_next_piece_of_a_copy() -> None:
    turns, order = ReadTurns(), list[str]()
    with turns.beside_plans():
        plan = reader(turns.of_plan(), "plan", order)
        wait_until(lambda: turns._plans == 1, "the plan to wait")
        piece = reader(turns.beside_plans(), "piece", order)
        assert order == []
    plan.join(WAIT_S)
    piece.join(WAIT_S)

    assert order == ["plan", "piece"]


def test_a_read_that_fails_ends_its_turn() -> None:
    turns = ReadTurns()
    for turn in (turns.of_plan, turns.beside_plans):
        with pytest.raises(RuntimeError), turn():
            raise RuntimeError
    order: list[str] = []
    reader(turns.of_plan(), "plan", order).join(WAIT_S)

    assert order == ["plan"]


def test_pieces_have_each_offset_once() -> None:
    found = [*pieces({("t", 0): (10, 21), ("t", 1): (5, 6), ("t", 2): (3, 3)}, 4)]

    assert len(found) == 4
    assert sorted(n for piece in found for n in range(*piece.get(("t", 0), (0, 0)))) == [*range(10, 21)]
    assert [piece[("t", 1)] for piece in found if ("t", 1) in piece] == [(5, 6)]
    assert all(("t", 2) not in piece for piece in found)
