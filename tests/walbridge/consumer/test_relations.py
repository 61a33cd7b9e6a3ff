"""Which tables a name means, of what a pipeline has written to its metadata topic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.in_soak import in_variants
from tests.schemas.strategies import column, table
from walbridge.consumer.relations import Relations
from walbridge.consumer.wanted_tables import WantedTables
from walbridge.embedded.kafka import KafkaBroker
from walbridge.producer.kafka.control_topics import MetadataWriter
from walbridge.producer.kafka.topic_specs import control_topics
from walbridge.producer.kafka.topics import TopicAdmin
from walbridge.producer.relations.relation_cache import DataTopic, RelationCache
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Kafka

A = replace(table(column("id", 23, is_key=True)), relation_id=16_390, namespace="public", name="a")


class Written:
    """A metadata topic, and a reader of it."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.cache = settings, RelationCache(settings.name)
        TopicAdmin(settings).ensure(control_topics(settings))

    def write(self, system_id: str | None, name: str, topic: str, relation_id: int = A.relation_id) -> RelationRecord:
        record = self.cache.version_of(replace(A, relation_id=relation_id, name=name), DataTopic(topic, 1))
        MetadataWriter(self.settings, lambda: None, 0, system_id).write([record])
        self.cache.remember(record)
        return record

    def wanted(self, name: str) -> WantedTables:
        relations = Relations({"bootstrap.servers": self.settings.kafka.bootstrap_servers}, self.settings.name)
        try:
            return WantedTables(relations, [name])
        finally:
            relations.close()


@pytest.fixture
def written(kafka: KafkaBroker, pipeline_name: str) -> Written:
    return Written(Settings(name=pipeline_name, kafka=Kafka(bootstrap_servers=kafka.bootstrap_servers)))


@pytest.mark.parametrize("ids", [("7000", "7001"), in_variants((None, "7001")), (None, None)])
def test_relation_id_of_another_cluster_is_another_table(written: Written, ids: tuple[str | None, str | None]) -> None:
    """I7: events of a table that nobody asked for would be given as those of one that was."""
    before, now = ids
    written.write(before, "a", "p.public.a")
    written.write(now, "b", "p.public.b")
    written.write(now, "a", "p.public.a", relation_id=16_500)

    wanted = written.wanted("a")
    assert wanted.topics == {"p.public.a"}
    assert (wanted.has(16_390, "p.public.a"), wanted.has(16_500, "p.public.a")) == (True, True)
    assert not wanted.has(16_390, "p.public.b")
    assert not written.wanted("b").has(16_390, "p.public.a")


@pytest.mark.parametrize("system_id", [None, "7000"])
def test_table_that_was_renamed_or_got_another_topic_is_still_meant_by_its_name_of_before(
    written: Written, system_id: str | None
) -> None:
    written.write(system_id, "a", "p.public.a")
    written.write(system_id, "renamed", "p.public.a")
    written.write("7000", "renamed", "p.public.renamed")

    wanted = written.wanted("a")
    assert wanted.topics == {"p.public.renamed"}
    assert wanted.topics_before("p.public.renamed") == {"p.public.a"}
    assert wanted.has(16_390, "p.public.renamed")


def test_table_that_got_name_and_topic_at_once_is_the_same_where_its_cluster_is_known(written: Written) -> None:
    written.write("7000", "a", "p.public.a")
    written.write("7000", "renamed", "p.public.renamed")
    assert written.wanted("a").topics == {"p.public.renamed"}
