"""What the producer counts, batch by batch."""

from __future__ import annotations

import math
from unittest.mock import MagicMock

import pytest

from walbridge.producer.batch.progress import Batch
from walbridge.producer.metrics import COPYING, KAFKA_SLOW_S, STREAMING, ProducerMetrics
from walbridge.producer.session.copies.state.copy_progress import CopyStanding
from walbridge.schemas.control.cut import Cut, Epoch, TableChanges
from walbridge.schemas.control.table_progress import CURRENT, FIRST_COPY_WAITS, QUARANTINED, STALE, TableProgress
from walbridge.schemas.errors import KafkaAway, RetryableError
from walbridge.schemas.position import Lsn

ROWS = 3


def cut(*, complete: bool) -> Cut:
    """Of a batch in which no transaction commits."""
    return Cut(
        epoch=Epoch("7", 1, "slot", Lsn(100)),
        cut_id=1,
        previous_end_lsn=Lsn(100),
        end_lsn=Lsn(100),
        commit_lsn=None,
        commit_time_us=None,
        transactions=0,
        complete=complete,
        metadata_end_offset=1,
        partitions=(),
        tables=(TableChanges(16_384, "p.public.orders", ("a",), ROWS),),
    )


@pytest.mark.parametrize("complete", [False, True], ids=["a part of a large transaction", "messages of no transaction"])
def test_rows_of_a_batch_without_a_commit_are_no_rows_of_a_copy_once_the_producer_streams(complete: bool) -> None:
    assert copied_rows(STREAMING, complete=complete) == 0


def test_rows_of_a_first_copy_are_counted() -> None:
    assert copied_rows(COPYING, complete=False) == ROWS


def copied_rows(state: str, *, complete: bool) -> float | None:
    metrics = ProducerMetrics()
    metrics.enter(state)
    metrics.batch_committed(Batch(row_count=ROWS), cut(complete=complete), commit_s=0.01)
    return metrics.registry.get_sample_value("walbridge_producer_copied_rows_total")


def test_copies_beside_the_stream_are_shown_by_topic_while_they_go_on() -> None:
    metrics = ProducerMetrics()
    going_on = [CopyStanding("p.public.orders", 50, 1000, 0.25), CopyStanding("p.public.items", 1, 20, None)]
    metrics.watch_copies(lambda: going_on)

    def value(name: str, topic: str) -> float | None:
        return metrics.registry.get_sample_value(f"walbridge_producer_table_copy_{name}", {"topic": topic})

    assert [value(name, "p.public.orders") for name in ("rows", "bytes", "share")] == [50, 1000, 0.25]
    assert [value(name, "p.public.items") for name in ("rows", "share")] == [1, None]
    going_on.clear()
    assert value("rows", "p.public.orders") is None


def test_producer_that_waits_says_for_whom() -> None:
    metrics = ProducerMetrics()
    metrics.enter(STREAMING)
    metrics.peer_away(KafkaAway("gone"))
    assert (metrics.state, metrics.health().state) == ("waiting for Kafka", "waiting for Kafka")
    metrics.peer_away(RetryableError("gone"))
    assert metrics.state == "waiting for Postgres"
    assert shown_state(metrics) == ["waiting for Postgres"]


@pytest.mark.parametrize("state", [COPYING, STREAMING])
def test_producer_whose_batch_kafka_does_not_take_waits_for_kafka(state: str) -> None:
    """A batch may wait for minutes before it is given up."""
    metrics, publisher = ProducerMetrics(), MagicMock(waits_s=0.0)
    metrics.watch_publisher(publisher)
    metrics.enter(state)
    assert metrics.state == state
    publisher.waits_s = KAFKA_SLOW_S + 1

    assert metrics.state == "waiting for Kafka"


def shown_state(metrics: ProducerMetrics) -> list[str]:
    return [
        sample.labels["walbridge_producer_state"]
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "walbridge_producer_state" and sample.value
    ]


def test_each_of_our_series_names_the_pipeline_and_those_of_the_process_do_not() -> None:
    labelled = {
        sample.name: sample.labels.get("pipeline")
        for metric in ProducerMetrics(pipeline="shop").registry.collect()
        for sample in metric.samples
    }

    assert {name for name, pipeline in labelled.items() if pipeline is None} == {
        name for name in labelled if name.startswith("process_")
    }
    assert set(labelled.values()) == {"shop", None}


def test_tables_are_shown_by_state_and_one_that_waits_for_its_first_copy_needs_nobody() -> None:
    metrics = ProducerMetrics()
    tables = [
        TableProgress(1, CURRENT),
        TableProgress(2, STALE, why="its key changed"),
        TableProgress(3, STALE, why=FIRST_COPY_WAITS),
        TableProgress(4, QUARANTINED, why="it was rewritten"),
        TableProgress(5, CURRENT),
    ]

    def shown() -> dict[str, float | None]:
        states = ("current", "copying", "waiting", "stale", "quarantined", "dropped")
        return {
            state: metrics.registry.get_sample_value("walbridge_producer_tables", {"state": state}) for state in states
        }

    assert {*shown().values()} == {0}
    metrics.watch_tables(lambda: tables)
    assert shown() == {"current": 2, "copying": 0, "waiting": 1, "stale": 1, "quarantined": 1, "dropped": 0}


@pytest.mark.parametrize(("retention_ms", "kept_s"), [(7_200_000, 7200.0), (-1, math.inf)])
def test_how_long_topics_keep_what_nobody_has_read_is_shown(retention_ms: int, kept_s: float) -> None:
    metrics = ProducerMetrics(retention_ms=retention_ms)

    assert metrics.registry.get_sample_value("walbridge_producer_records_kept_seconds") == kept_s
