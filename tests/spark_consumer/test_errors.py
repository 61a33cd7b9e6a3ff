"""What Spark says when a broker dies under it is waited out; what a disk or a store says is told; else it is a bug."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.spark_consumer.errors import classified_error, classifying_errors

AWAY = [
    "java.util.concurrent.TimeoutException: Cannot fetch record for offset 3100 in 5000 milliseconds",
    "org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired",
    "org.apache.kafka.common.errors.DisconnectException",
]


@pytest.mark.parametrize("cause", AWAY)
def test_read_that_a_dead_broker_left_unanswered_is_tried_again(cause: str) -> None:
    failed = RuntimeError(f"Job aborted due to stage failure: Task 0 in stage 63.0 failed 1 times: {cause}\n\tat x.Y")
    assert isinstance(classified_error(failed), RetryableError)


@pytest.mark.parametrize("name", ["enable.auto.commit", "auto.offset.reset", "interceptor.classes", "key.deserializer"])
def test_property_that_sparks_source_keeps_for_itself_is_told_by_its_name(spark: SparkSession, name: str) -> None:
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:9").option("assign", '{"t":[0]}')

    with pytest.raises(OperatorError, match=rf"sets {name}, .*\n.*remove it"), classifying_errors():
        source.option(f"kafka.{name}", "secret").load()


LOST = "Some data may have been lost. [...] set the source option failOnDataLoss to false"


def test_records_that_expire_while_they_are_read_are_looked_for_again() -> None:
    """I7: the next attempt names their partition, which no checkpoint mends."""
    assert isinstance(classified_error(RuntimeError(f"Job aborted due to stage failure: {LOST}")), RetryableError)


def test_stream_whose_checkpoint_is_of_another_log_is_told_to_go_without() -> None:
    told = classified_error(StreamingQueryException(LOST))

    assert isinstance(told, OperatorError)
    assert "_checkpoint" in told.remedy


LAKE = {
    "a full disk": (
        DeltaError,
        "Failed to parse parquet: External: Generic LocalFileSystem error: Unable to copy data to file: "
        "No space left on device (os error 28)",
        "No space left on device",
    ),
    "a folder of another user": (
        DeltaError,
        "Failed to parse parquet: External: Generic LocalFileSystem error: Unable to open file /l/p#1: "
        "Permission denied (os error 13)",
        "Permission denied",
    ),
    "a file of another user": (
        OSError,
        "Kernel error -> Generic LocalFileSystem error\n  Unable to open file /l/_delta_log/0.json\n"
        "  Permission denied (os error 13)\n",
        "Permission denied",
    ),
    "a store that refuses": (
        OSError,
        "Kernel error -> The operation lacked the necessary privileges to complete for path x\n"
        "  Error performing GET http://s/x in 1ms - Server returned non-2xx status code\n  403 Forbidden\n",
        "refuses the credentials",
    ),
    "a store that is away": (
        OSError,
        "Kernel error -> Generic S3 error\n  Error performing GET http://s/x in 2.5s, after 10 retries\n"
        "  tcp connect error\n  Connection refused (os error 111)\n",
        "does not answer",
    ),
    "a mount of which nobody is left that serves it": (
        OSError,
        "Kernel error -> Generic LocalFileSystem error\n  Unable to open file /l/_delta_log/_last_checkpoint\n"
        "  Transport endpoint is not connected (os error 107)\n",
        "Transport endpoint is not connected",
    ),
    "a store of another kind": (DeltaError, "Unknown scheme: foo. Known schemes: s3,gs", "kind of store"),
}
"""What delta-rs 1.6 was seen to say."""


@pytest.mark.parametrize("fault", LAKE)
def test_lake_that_cannot_be_written_is_told_with_a_remedy(fault: str) -> None:
    """I10: and without the text, which names files and may quote rows."""
    kind, text, said = LAKE[fault]
    told = classified_error(kind(text))

    assert isinstance(told, OperatorError)
    assert said in told.what
    assert "[lake] path" in told.remedy
    assert "/l/" not in str(told)


def test_table_where_nobody_may_write_is_told_with_the_words_of_the_system() -> None:
    """No user, not even root, makes a folder in /sys."""
    with pytest.raises(OperatorError, match="Operation not permitted"), classifying_errors():
        DeltaTable.create("/sys/walbridge", pa.schema([("a", pa.int64())]))


def test_scratch_file_without_room_is_told_too() -> None:
    """A spool's, or a large record's: Python's own error."""
    with (
        Path("/dev/full").open("wb", buffering=0) as file,
        pytest.raises(OperatorError, match="No space left on device"),
        classifying_errors(),
    ):
        file.write(b"x")


@pytest.fixture
def table_and_no_file_more(lake: Path) -> Iterator[Path]:
    DeltaTable.create(lake, pa.schema([("a", pa.int64())]))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len([*Path("/proc/self/fd").iterdir()]) + 8, limits[1]))
    held = []
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        yield lake
    finally:
        for file in held:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_files_that_may_not_be_opened_are_told_with_the_limit_to_raise(table_and_no_file_more: Path) -> None:
    with pytest.raises(OperatorError, match="no more files open") as told, classifying_errors():
        DeltaTable(table_and_no_file_more)
    assert "ulimit -n" in told.value.remedy


def test_connection_that_the_jvm_refuses_is_not_the_disks() -> None:
    refused = ConnectionRefusedError(111, "Connection refused")
    assert classified_error(refused) is refused


def test_other_timeouts_are_bugs() -> None:
    failed = RuntimeError("java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]")
    assert classified_error(failed) is failed


def test_block_leaves_an_error_that_nobody_knows_as_it_came() -> None:
    """I10: as its own cause it would be told without an end."""
    unknown = RuntimeError("futures timed out")

    with pytest.raises(RuntimeError) as raised, classifying_errors():
        raise unknown
    assert raised.value is unknown
    assert unknown.__cause__ is None


def test_block_raises_what_is_known_as_an_error_of_ours() -> None:
    failed = RuntimeError(AWAY[0])

    with pytest.raises(RetryableError) as raised, classifying_errors():
        raise failed
    assert raised.value.__cause__ is failed
