"""Asks Kafka by consumers in the JVM, and turns their exceptions into errors of ours.

In: settings, topic partitions. Out: log starts and last stable offsets (the end as a read_committed reader sees it);
an ``OperatorError`` or ``RetryableError`` in place of Java's exception (I10). Spark reads with the same clients, so
brokers, credentials and properties are the same for every read.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from walbridge.schemas.control.cut import PartitionId
from walbridge.schemas.errors import MEND_PROPERTY, OperatorError, RetryableError
from walbridge.schemas.properties import flatten
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Compression
from walbridge.spark_consumer.errors import GRANT_READ, CutsLost, class_name, java_cause, messages
from walbridge.spark_consumer.errors import classified_error as sorted_error
from walbridge.spark_consumer.kafka.large_records import close_consumer

API_TIMEOUT_MS = 5_000
"""How long one question may take; the caller repeats it."""
FETCH_BYTES: dict[Compression, int] = {
    "none": 128 * 2**10,
    "snappy": 128 * 2**10,
    "lz4": 128 * 2**10,
    "gzip": 32 * 2**10,
    "zstd": 4 * 2**10,
}
"""Bytes of one fetch from one partition, unless its first batch alone is larger. They unpack to 32 MiB at most, which
one record may take by default: lz4 expands by a factor of 255 at most, gzip by 1,032. zstd has no such bound, but a
batch of more than one record has at most 1 MB unpacked, and at least 120 bytes packed."""
OWN = {"auto.offset.reset": "none", "fetch.max.wait.ms": "10"}
"""Properties of the consumer that a job keeps. If an offset is gone it raises, and chooses no other offset. A read to
the end of a partition leaves a request behind that waits for the next record, and the broker answers no other one
meanwhile: by default the next read would stand still for up to 500 ms."""
_SIZES = ("fetch.max.bytes", "max.partition.fetch.bytes")
_RETRIABLE = "org.apache.kafka.common.errors.RetriableException"
_OFFSET_GONE = "org.apache.kafka.clients.consumer.InvalidOffsetException"
_OF_A_BROKER = "org.apache.kafka.common.errors.ApiException"
_NOT_OF_KAFKA = (
    "java.io.IOException",  # of the disk; Kafka's client puts its own into a KafkaException
    "java.lang.reflect.UndeclaredThrowableException",  # the same within a loop of the JVM
    "java.lang.VirtualMachineError",
)
_NAMELESS = "No resolvable bootstrap urls"
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_ENTRY = re.compile(r"([A-Za-z0-9._-]+)-(\d+)=(\d+)")


def java_map(jvm: Any, properties: Mapping[str, str]) -> Any:
    """The properties as a Java map."""
    made = jvm.java.util.HashMap()
    for name, value in properties.items():
        made.put(name, value)
    return made


def java_list(jvm: Any, items: Iterable[Any]) -> Any:
    """The items as a Java list."""
    made = jvm.java.util.ArrayList()
    for item in items:
        made.add(item)
    return made


class MissingTopics(CutsLost):
    """Topics that the broker does not have."""

    def __init__(self, topics: Sequence[str], bootstrap_servers: str) -> None:
        self.topics, self._bootstrap_servers = topics, bootstrap_servers
        super().__init__(
            self.missing_topic(topics[0]), instead="correct [kafka] bootstrap_servers, if that is another broker"
        )

    def missing_topic(self, topic: str) -> str:
        """The fault of one of the topics, in words."""
        return f"topic {topic} does not exist at {self._bootstrap_servers}"


class KafkaClient:
    """One job's clients in the JVM. The consumer that it keeps is used by one thread at a time."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._bootstrap_servers = settings.kafka.bootstrap_servers
        self._client = flatten(settings.kafka.spark)
        self._fetch_bytes = str(FETCH_BYTES[settings.topics.compression])
        self._consumer: Any = None
        self._java_partitions: dict[PartitionId, Any] = {}
        self._listed: tuple[tuple[PartitionId, ...] | None, Any] = None, None

    def starts(self, partition_ids: Iterable[PartitionId]) -> dict[PartitionId, int]:
        """The first offset that is still there, by partition.

        Raises:
            RetryableError: no answer in time: the broker is away, or there is no such topic.
        """
        return self._ask("beginningOffsets", partition_ids)

    def ends(self, partition_ids: Iterable[PartitionId]) -> dict[PartitionId, int]:
        """The last stable offset: everything below it is decided, committed or aborted.

        Raises:
            RetryableError: as ``starts``.
        """
        return self._ask("endOffsets", partition_ids)

    def partition_count(self, topic: str) -> int:
        """0 where there is no such topic.

        Raises:
            RetryableError: no answer in time.
        """
        partitions = self._call(lambda consumer: consumer.partitionsFor(topic))
        return len(partitions) if partitions is not None else 0

    @property
    def fetch_sizes(self) -> dict[str, str]:
        """Properties of a consumer whose answers unpack to what the heap has room for."""
        return dict.fromkeys(_SIZES, self._fetch_bytes)

    def close(self) -> None:
        """Let go of the connection."""
        if self._consumer is not None:
            close_consumer(self._spark, self._consumer)
            self._consumer = None

    def _ask(self, question: str, partition_ids: Iterable[PartitionId], consumer: Any = None) -> dict[PartitionId, int]:
        asked = self._list(partition_ids)
        try:
            # One text instead of a call for each entry: topic names hold neither "=" nor ",".
            answer = self._call(lambda own: getattr(own if consumer is None else consumer, question)(asked).toString())
        except RetryableError:
            self._refuse_missing_topics(partition_ids)
            raise
        return {(topic, int(partition)): int(offset) for topic, partition, offset in _ENTRY.findall(answer)}

    def _partition(self, partition_id: PartitionId) -> Any:
        if partition_id not in self._java_partitions:
            self._java_partitions[partition_id] = self._jvm.org.apache.kafka.common.TopicPartition(*partition_id)
        return self._java_partitions[partition_id]

    def _list(self, partition_ids: Iterable[PartitionId]) -> Any:
        """The Java list of these partitions. The last one is kept: each entry costs a call, and a plan asks several
        questions about the same partitions."""
        wanted = (*partition_ids,)
        if self._listed[0] != wanted:
            self._listed = wanted, java_list(self._jvm, map(self._partition, wanted))
        return self._listed[1]

    def _refuse_missing_topics(self, partition_ids: Iterable[PartitionId]) -> None:
        """Refuse a topic that does not exist: asking for its offsets times out, as if the broker were away."""
        topics = sorted({topic for topic, _ in partition_ids})
        if missing := [topic for topic in topics if self.partition_count(topic) == 0]:
            raise MissingTopics(missing, self._bootstrap_servers)

    def _call(self, question: Any) -> Any:
        try:
            if self._consumer is None:
                self._consumer = self._connect(self.fetch_sizes | OWN)
            return question(self._consumer)
        except Py4JJavaError as error:
            if any(self._is_a(error.java_exception, each) for each in _NOT_OF_KAFKA):
                raise sorted_error(error) from None
            raise self.classified_error(error.java_exception) from None

    def _connect(self, more: Mapping[str, str] = MappingProxyType({})) -> Any:
        properties = java_map(self._jvm, self._client | self._consumer_properties() | dict(more))
        return self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties)

    def _consumer_properties(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self._bootstrap_servers,
            "isolation.level": "read_committed",
            "key.deserializer": _BYTES,
            "value.deserializer": _BYTES,
            "default.api.timeout.ms": str(API_TIMEOUT_MS),
            "request.timeout.ms": str(API_TIMEOUT_MS),
            "allow.auto.create.topics": "false",
        }

    def classified_error(self, cause: Any) -> Exception:
        """The error of ours that a Java exception of a Kafka client stands for."""
        if self._is_a(cause, _OFFSET_GONE):
            return RetryableError(f"records went while they were read: {cause.getMessage()}")
        # ApiException is the base of what a broker answers; the retriable ones among them heal.
        if self._is_a(cause, _RETRIABLE):
            return RetryableError(f"Kafka at {self._bootstrap_servers} does not answer: {cause.getMessage()}")
        if self._is_a(cause, _OF_A_BROKER):
            refusal = f"{class_name(cause)}: {cause.getMessage()}"
            return OperatorError(
                f"Kafka at {self._bootstrap_servers} refuses: {refusal}",
                remedy=GRANT_READ
                if "Authorization" in refusal
                else "check [kafka] bootstrap_servers and [kafka.spark]",
            )
        # A stopped container takes its name along, and each attempt makes a new client.
        if _NAMELESS in messages(cause):
            return RetryableError(f"no name in [kafka] bootstrap_servers {self._bootstrap_servers} can be resolved")
        return OperatorError(
            f"[kafka.spark] is not accepted: {java_cause(cause, self._client)}",
            remedy=MEND_PROPERTY,
        )

    def _is_a(self, cause: Any, java_class: str) -> bool:
        return bool(is_instance_of(self._spark.sparkContext._gateway, cause, java_class))
