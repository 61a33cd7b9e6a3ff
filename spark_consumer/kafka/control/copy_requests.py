"""Asks the producer to copy tables that the lake cannot follow any more, as ``walbridge copy`` does.

In: tables in trouble. Out: requests in ``<p>.progress``, acknowledged before ``_cuts`` says that the tables are stale:
a job that dies in between meets the same trouble again, and asks again. If a copy of the table goes on already, the
producer copies it once more after that: the lake has lost records of the running copy, so its end mends nothing. The
producer counts the requests and ends what no copy mends: jobs come and go, its progress stays.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import structlog
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from walbridge.schemas.control.table_progress import STALE
from walbridge.schemas.control.table_request import COPY, TableRequest, encode_request, request_key
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.properties import flatten
from walbridge.schemas.settings import Settings
from walbridge.schemas.topics import progress_topic
from walbridge.spark_consumer.kafka.kafka_client import java_map
from walbridge.spark_consumer.kafka.kafka_log import KafkaLog
from walbridge.spark_consumer.plan.table_trouble import TableTrouble

log = structlog.get_logger()

ANSWER_S = 10
_BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer"
_PROPERTIES = {
    "acks": "all",
    "enable.idempotence": "false",  # a request that is written twice is one
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "max.block.ms": "5000",
    "request.timeout.ms": "5000",
    "delivery.timeout.ms": "9000",
}


class CopyRequests:
    """One for each job."""

    def __init__(self, spark: SparkSession, kafka: KafkaLog, settings: Settings) -> None:
        self._jvm: Any = spark._jvm
        self._kafka, self._topic = kafka, progress_topic(settings.name)
        self._is_wanted = settings.lake.on_table_error == "copy"
        self._properties = flatten(settings.kafka.spark) | _PROPERTIES
        self._properties["bootstrap.servers"] = settings.kafka.bootstrap_servers

    def ask(self, slot: str, troubles: Iterable[TableTrouble]) -> frozenset[int]:
        """Ask for copies of the tables that a copy mends; returns the relation ids that were asked for.

        Raises:
            RetryableError: Kafka is away.
        """
        wanted = [*dict.fromkeys(each.relation_id for each in troubles if each.state == STALE and self._is_wanted)]
        if not wanted or not self._kafka.partition_count(self._topic):
            return frozenset()
        try:
            self._write(slot, wanted)
        except OperatorError as error:
            log.warning("no copy could be asked for", topic=self._topic, why=error.what, remedy=error.remedy)
            return frozenset()
        return frozenset(wanted)

    def _write(self, slot: str, relation_ids: Sequence[int]) -> None:
        kafka = self._jvm.org.apache.kafka.clients.producer
        try:
            producer = kafka.KafkaProducer(java_map(self._jvm, self._properties))
            try:
                for relation_id in relation_ids:
                    request = TableRequest(COPY, relation_id, time.time_ns() // 1000, by_lake=True)
                    record = kafka.ProducerRecord(self._topic, 0, request_key(slot, request), encode_request(request))
                    producer.send(record).get(ANSWER_S, self._jvm.java.util.concurrent.TimeUnit.SECONDS)
            finally:
                producer.close(self._jvm.java.time.Duration.ofSeconds(1))
        except Py4JJavaError as error:
            cause = error.java_exception
            raise self._kafka.classified_error(cause.getCause() or cause) from None
