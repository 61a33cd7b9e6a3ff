"""The heap as the JVM and its properties tell it (I9)."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from walbridge.runtime.heap import SPARK_SHARE, heap_needed
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.kafka.driver_heap import DriverHeap, driver_heap


def heap_with(share: str | None) -> DriverHeap:
    properties = {} if share is None else {"spark.memory.fraction": share}
    spark: Any = MagicMock()
    spark._jvm.java.lang.Runtime.getRuntime().maxMemory.return_value = 2**30
    spark.sparkContext.master = "local[2]"
    spark.sparkContext.defaultParallelism = 2
    spark.sparkContext.getConf.return_value = SimpleNamespace(get=properties.get)
    return driver_heap(spark, Settings(name="p", lake={"path": "lake"}))  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "share"), [("0.25", 0.25), (None, 0.6)])
def test_share_of_spark_is_the_one_that_its_session_has(text: str | None, share: float) -> None:
    assert heap_with(text).spark_share == share


@pytest.mark.parametrize("text", ["x", "nan", "1", "0", "-0.5", "inf"])
def test_share_that_leaves_no_room_is_told_by_its_name(text: str) -> None:
    with pytest.raises(OperatorError, match=r"spark\.memory\.fraction"):
        heap_with(text)


ONE_READER, TWO_READERS, FOUR_READERS = (
    DriverHeap(heap_needed(readers * 2**20, SPARK_SHARE), 2, 2**20) for readers in (1, 2, 4)
)


@pytest.mark.parametrize(
    ("heap", "executors", "readers"),
    [
        (ONE_READER, [], 1),
        (FOUR_READERS, [], 2),
        (ONE_READER, [1, 1, 1], 3),
        (FOUR_READERS, [4, 4, 2], 10),
        (TWO_READERS, [4, 4, 2], 2),
    ],
    ids=[
        "no cluster",
        "no cluster, and few cores",
        "a core each",
        "cores that all may read",
        "more cores than may read",
    ],
)
def test_all_cores_of_executors_read_where_each_executor_takes_readers_on_all_its_cores(
    heap: DriverHeap, executors: list[int], readers: int
) -> None:
    """I9: Spark chooses who reads what, so that all readers of a time may be of one executor."""
    assert heap.readers_of(executors) == readers
