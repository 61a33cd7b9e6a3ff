"""Exactly these records or a stop; and what Kafka's Java client does not take is told by name.

The client's own words may quote a secret (I10). Where there is no broker and no Spark, their part
is what they were asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from walbridge.runtime.heap import BASE_BYTES
from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import OperatorError, RetryableError
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.kafka import decided_log
from walbridge.spark_consumer.kafka.driver_heap import DriverHeap
from walbridge.spark_consumer.kafka.kafka_client import MissingTopics
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.kafka.large_records import LargeRecord

SECRET = "hunter2-canary"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required username=u password="
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
MISTAKES = {
    "no such protocol": ({"security.protocol": SECRET}, "security.protocol"),
    "no number": ({"max.poll.records": SECRET}, "max.poll.records"),
    "password of two words without quotes": (
        SASL | {"sasl.jaas.config": f"{LOGIN}two {SECRET};"},
        "IllegalArgumentException",
    ),
    "no login module": (SASL | {"sasl.jaas.config": f"{SECRET} required;"}, "LoginException"),
    "no key": (
        {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.key": SECRET},
        "InvalidConfigurationException",
    ),
    "no such file": ({"security.protocol": "SSL", "ssl.truststore.location": "/no/where"}, "ssl.truststore.location"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistaken_property_is_told_without_its_value(spark: SparkSession, mistake: str) -> None:
    properties, named = MISTAKES[mistake]
    log = KafkaLog(spark, Settings(kafka={"spark": properties}))  # type: ignore[arg-type]

    with pytest.raises(OperatorError) as refused:
        log.partition_count("t")

    assert "[kafka.spark] is not accepted" in refused.value.what
    assert named in refused.value.what
    assert SECRET not in str(refused.value)


def test_broker_whose_name_is_gone_for_a_moment_is_waited_for(spark: SparkSession) -> None:
    """A stopped container takes its name along: that is no mistaken property."""
    log = KafkaLog(spark, Settings(kafka={"bootstrap_servers": "kafka.invalid:9092"}))  # type: ignore[arg-type]

    with pytest.raises(RetryableError, match=r"kafka\.invalid:9092"):
        log.partition_count("t")


class Reader:
    """Stands for ``spark.read``: what it was told."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def format(self, _name: str) -> Reader:
        return self

    def options(self, **options: str) -> Reader:
        self.told |= options
        return self

    def option(self, name: str, value: str) -> Reader:
        self.told[name] = value
        return self

    def load(self) -> MagicMock:
        return MagicMock()


def settings(**client: str) -> Settings:
    return Settings(kafka={"bootstrap_servers": "h:1", "spark": client})  # type: ignore[arg-type]


def without_broker(**client: str) -> tuple[KafkaLog, Reader]:
    reader = Reader()
    spark = MagicMock()
    spark.read = reader
    spark.sparkContext.defaultParallelism = 2
    log = KafkaLog(cast(SparkSession, spark), settings(**client))
    log.heap = DriverHeap(heap_bytes=2**30, cores=2, record_bytes_max=2**20)
    return log, reader


def test_read_is_of_exactly_the_ranges() -> None:
    """I7: of every partition, its own offsets, the end excluded; an empty range asks for nothing."""
    log, reader = without_broker()

    log.read({("a", 0): (5, 6), ("a", 1): (7, 9), ("b", 3): (0, 2), ("b", 4): (3, 3)})

    assert {name: json.loads(reader.told[name]) for name in ("assign", "startingOffsets", "endingOffsets")} == {
        "assign": {"a": [0, 1], "b": [3]},
        "startingOffsets": {"a": {"0": 5, "1": 7}, "b": {"3": 0}},
        "endingOffsets": {"a": {"0": 6, "1": 9}, "b": {"3": 2}},
    }


def test_no_setting_makes_aborted_records_readable_or_loss_silent() -> None:
    """I7: neither of a read, nor of a stream, nor of the end up to which everything is decided."""
    log, reader = without_broker(**{"isolation.level": "read_uncommitted"})
    jvm = log._jvm = MagicMock()
    put: dict[str, str] = {}
    jvm.java.util.HashMap.return_value.put.side_effect = put.__setitem__

    log.read({("a", 0): (5, 6)})
    log.partition_count("a")

    levels = [
        log.stream_options()["kafka.isolation.level"],
        reader.told["kafka.isolation.level"],
        put["isolation.level"],
    ]
    assert levels == ["read_committed"] * 3
    assert "failOnDataLoss" not in reader.told


class Bounds(KafkaLog):
    """Answers with these bounds, one after another."""

    def __init__(self, starts: list[int], ends: list[int], visible_timeout_s: int = 60) -> None:
        super().__init__(MagicMock(), settings())
        self._visible_timeout_s = visible_timeout_s
        self.left = {"beginningOffsets": starts, "endOffsets": ends}

    def _ask(self, question: str, places: Iterable[PartitionId], consumer: Any = None) -> dict[PartitionId, int]:
        left = self.left[question]
        found = left.pop(0) if len(left) > 1 else left[0]
        return {place: found if place[1] else 10**6 * (question == "endOffsets") for place in places}


RANGES = {("a", 0): (5, 9), ("a", 1): (5, 9)}


def test_records_are_waited_for_until_all_are_decided() -> None:
    """I7: markers of one transaction land on its partitions at different moments."""
    log = Bounds([5], [8, 8, 9])

    log.wait_visible(RANGES)

    assert log.left["endOffsets"] == [9]


@pytest.mark.parametrize(
    ("starts", "ends", "said"), [([6], [9], r"a\[1\] from offset 5 on are gone"), ([5], [8], "not visible after 0 s")]
)
def test_records_that_are_gone_or_never_decided_stop_the_job(starts: list[int], ends: list[int], said: str) -> None:
    """I7"""
    with pytest.raises(OperatorError, match=said):
        Bounds(starts, ends, visible_timeout_s=0).wait_visible(RANGES)


def test_records_of_one_topic_that_are_lost_say_nothing_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """I7: gone, never decided, or without their topic: each is found, whatever the others are."""
    log = Bounds([0], [0], visible_timeout_s=0)
    bounds = {"whole": (0, 9), "gone": (6, 9), "open": (0, 8)}

    def ask(question: str, places: Iterable[PartitionId]) -> dict[PartitionId, int]:
        if "deleted" in {topic for topic, _ in places}:
            raise MissingTopics(["deleted"], "broker")
        return {place: bounds[place[0]][question == "endOffsets"] for place in places}

    monkeypatch.setattr(log, "_ask", ask)
    monkeypatch.setattr(log, "partition_count", lambda _topic: 1)
    lost = log.lost({(topic, 0): (5, 9) for topic in [*bounds, "deleted"]})

    assert {topic: trouble.what.split(" ")[-1] for topic, trouble in lost.items()} == {
        "deleted": "broker", "open": "anew", "gone": "them"
    }  # fmt: skip
    assert "from offset 5 on are gone, the log begins at 6" in lost["gone"].what
    # It begins where what is decided ends.
    assert "abort --topic open --partition 0 --start-offset 8;" in (lost["open"].first or "")

    monkeypatch.setattr(log, "partition_count", lambda _topic: 0)
    with pytest.raises(MissingTopics):
        log.lost({("deleted", 0): (5, 9)})


def test_log_that_ends_below_what_was_acknowledged_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """I7: such a topic was made anew; one that only holds an open transaction has all of it."""
    monkeypatch.setattr(decided_log, "SHORTER_AFTER_S", 0.0)
    log = Bounds([5], [8])
    committed, written = {"remade": 0, "open": 8}, {"remade": 3, "open": 9}

    def ask(question: str, places: Iterable[PartitionId], consumer: Any = None) -> dict[PartitionId, int]:
        if question == "beginningOffsets":
            return dict.fromkeys(places, 0)
        if "remade" not in {topic for topic, _ in places}:
            return dict.fromkeys(places, 9)
        return {place: (committed if consumer is None else written)[place[0]] for place in places}

    monkeypatch.setattr(log, "_connect", lambda properties: MagicMock())
    monkeypatch.setattr(log, "_ask", ask)
    lost = log.lost({(topic, 0): (5, 9) for topic in written})

    assert {topic: (trouble.what, trouble.first) for topic, trouble in lost.items()} == {
        "remade": (
            "remade[0] ends at offset 3, though records up to 9 were in it: the topic was deleted and made again",
            None,
        )
    }


@pytest.mark.parametrize(("partitions", "expected"), [(None, OperatorError), ([1], RetryableError)])
def test_topic_that_is_not_there_is_told_from_a_broker_that_is_away(
    partitions: Any, expected: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = without_broker()
    consumer = log._consumer = MagicMock()
    consumer.partitionsFor.return_value = partitions

    def call(question: Any) -> Any:
        answer = question(consumer)
        if answer is consumer.endOffsets.return_value.toString.return_value:
            raise RetryableError("no answer in time")
        return answer

    monkeypatch.setattr(log, "_call", call)
    with pytest.raises(expected):
        log.ends([("a", 0)])


@pytest.mark.parametrize("said", ["TimeoutException: position", "DisconnectException"])
def test_a_broker_that_goes_away_while_large_records_are_read_is_waited_for(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever call of the client meets it: its time-outs are exceptions, where a fetch only brings nothing."""
    log, _ = without_broker()
    thrown = SimpleNamespace(_target_id="o1", toString=lambda: f"org.apache.kafka.common.errors.{said}")
    consumer = MagicMock()
    consumer.seek.side_effect = consumer.position.side_effect = Py4JJavaError("", thrown)
    monkeypatch.setattr(log, "_connect", lambda *_: consumer)
    monkeypatch.setattr(Py4JJavaError, "__str__", lambda error: error.java_exception.toString())
    log.heap = DriverHeap(BASE_BYTES, 2, 2**20)

    with pytest.raises(RetryableError, match="went away"):
        log.too_large({("a", 0): (5, 9)})
    with pytest.raises(RetryableError, match="went away"):
        next(log.values([LargeRecord("a", 0, 5, None, None, 300_000)]))
