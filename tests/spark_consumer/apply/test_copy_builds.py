"""A copy in work beside the plans: what its thread leaves to whoever asks, and how it ends when nobody wants it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.spark_consumer.events import column, plan_of, relation, table_plan
from walbridge.schemas.errors import TableError
from walbridge.spark_consumer.apply.copies.copy_builds import POOL, BuildCancelled, CopyBuild
from walbridge.spark_consumer.plan.pending_copy import CopyShape, PendingCopy
from walbridge.spark_consumer.plan.plan import TableHead

OF = relation([column("id", "int4", is_key=True)])
HEAD = TableHead(OF.table.relation_id, OF.topic, "public/t", 0, OF.schema_id, "current")
COPY = PendingCopy(OF.topic, (CopyShape(500, -1, OF.schema_id),)).ended()
WAIT_S = 60.0


def build(write: Callable[[Callable[[], None]], TableHead], spark: Any = None) -> CopyBuild:
    return CopyBuild(spark or MagicMock(), plan_of(7, [table_plan(OF, None)]), COPY, write)


def test_a_thread_leaves_the_tables_head_and_its_jobs_have_a_pool_of_their_own() -> None:
    spark, threads = MagicMock(), list[threading.Thread]()

    def write(_on_step: Callable[[], None]) -> TableHead:
        threads.append(threading.current_thread())
        return HEAD

    begun = build(write, spark)
    begun.start()

    assert begun.has_ended(WAIT_S)
    assert (begun.head, begun.error) == (HEAD, None)
    assert [thread.daemon for thread in threads] == [True], "a process that ends waits for none"
    spark.sparkContext.setLocalProperty.assert_called_once_with("spark.scheduler.pool", POOL)


@pytest.mark.parametrize("error", [TableError("is gone"), RuntimeError(), KeyboardInterrupt()])
def test_whatever_ends_it_is_told_to_who_asks(error: BaseException) -> None:
    def write(_on_step: Callable[[], None]) -> TableHead:
        raise error

    begun = build(write)
    begun.start()

    assert begun.has_ended(WAIT_S)
    assert (begun.head, begun.error) == (None, error)


def test_one_that_nobody_wants_ends_with_its_next_step() -> None:
    spark, is_begun, goes_on = MagicMock(), threading.Event(), threading.Event()

    def write(on_step: Callable[[], None]) -> TableHead:
        on_step()
        is_begun.set()
        assert goes_on.wait(WAIT_S)
        on_step()
        return HEAD

    begun = build(write, spark)
    begun.start()
    assert is_begun.wait(WAIT_S)
    begun.cancel()
    goes_on.set()

    assert begun.has_ended(WAIT_S)
    assert isinstance(begun.error, BuildCancelled)
    assert begun.is_cancelled
    spark.sparkContext.cancelJobGroup.assert_called_once()
