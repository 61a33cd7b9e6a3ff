"""``walbridge check`` is a dry run: what it says of a pipeline that was broken is what ``walbridge produce`` says."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak
from tests.wait import wait_until
from tests.walbridge.check.stack import Stack
from walbridge.check.finding import Finding, Severity
from walbridge.schemas.topics import cuts_topic


@pytest.fixture
def streamed(producer: ProducerUnderTest) -> Stack:
    """Two tables, copied and followed; the producer has been stopped."""
    producer.database.execute("CREATE TABLE orders (id int PRIMARY KEY); CREATE TABLE lines (id int PRIMARY KEY)")
    producer.publish("orders", "lines")
    running = producer.start_streaming()
    with producer.topics() as topics:
        producer.caught_up(topics)
    running.stop()
    return Stack(producer.database, producer.kafka, producer.name, producer.folder)


def errors(stack: Stack) -> list[Finding]:
    return [each for each in stack.findings() if each.severity is Severity.ERROR]


def remade(stack: Stack, topic: str) -> None:
    """The topic is deleted, and made again by somebody else."""
    client = AdminClient({"bootstrap.servers": stack.kafka.bootstrap_servers})
    settings = "max.message.bytes", "retention.ms", "cleanup.policy", "message.timestamp.type"
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = client.describe_configs([resource])[resource].result(60)
    config = {name: found[name].value for name in settings if name in found}
    client.delete_topics([topic])[topic].result(60)

    def made() -> bool:
        try:
            client.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1, config=config)])[
                topic
            ].result(60)
        except Exception:  # still being deleted
            return False
        return True

    wait_until(made, f"{topic} to be made again")


def drop_publication(stack: Stack) -> None:
    stack.database.execute("DROP PUBLICATION walbridge")


def remake_publication(stack: Stack) -> None:
    stack.database.execute("DROP PUBLICATION walbridge; CREATE PUBLICATION walbridge FOR TABLE orders, lines")


def publish_less(stack: Stack) -> None:
    stack.database.execute("ALTER PUBLICATION walbridge SET (publish = 'insert, update')")


def drop_slot(stack: Stack) -> None:
    free = "SELECT active_pid IS NULL FROM pg_replication_slots WHERE slot_name = %s"
    wait_until(lambda: bool(stack.database.value(free, (stack.name,))), "the slot to be free")
    stack.database.rows("SELECT pg_drop_replication_slot(%s)", (stack.name,))


def move_slot(stack: Stack) -> None:
    """Somebody else read from it."""
    drop_slot(stack)
    stack.database.rows("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (stack.name,))


def remake_cuts(stack: Stack) -> None:
    remade(stack, cuts_topic(stack.name))
    wait_until(lambda: stack.says(".cuts was deleted and made again"), "the broker to know the new one")


@pytest.mark.parametrize(
    "broken",
    [move_slot, *map(in_soak, (drop_publication, remake_publication, publish_less, drop_slot, remake_cuts))],
)
def test_what_stops_the_producer_is_the_one_error_in_its_own_words(
    streamed: Stack, producer: ProducerUnderTest, broken: Callable[[Stack], None]
) -> None:
    broken(streamed)

    (told,) = errors(streamed)
    advised = [each.remedy for each in streamed.findings() if each.remedy == "walbridge init"]

    assert f"error: {told.text}\nremedy: {told.remedy}\n" in producer.refusal()
    assert advised == []


def test_records_that_are_gone_before_a_job_read_them_are_told(streamed: Stack, producer: ProducerUnderTest) -> None:
    """I7: in the job's words, of which ``test_guards_job.py`` has the rest; one topic of several that have rows."""
    running = producer.start_streaming()
    streamed.database.execute("INSERT INTO orders VALUES (1); INSERT INTO lines SELECT generate_series(1, 9)")
    with producer.topics() as topics:
        producer.caught_up(topics)
    running.stop()
    assert errors(streamed) == []
    topic = f"{streamed.name}.public.lines"
    client = AdminClient({"bootstrap.servers": streamed.kafka.bootstrap_servers})
    place = TopicPartition(topic, 0, OFFSET_END)
    client.delete_records([place])[place].result(60)

    (told,) = errors(streamed)
    gone = rf"records of {topic}\[0] from offset \d+ on are gone, the log begins at \d+: this job was away for longer"

    assert re.fullmatch(
        rf"the lake .* was empty at the start, and {gone} than \[topics] retention_ms, or somebody deleted them",
        told.text,
    )


def test_what_does_not_stop_the_producer_is_no_error_and_told_in_the_words_of_its_log(
    streamed: Stack, producer: ProducerUnderTest
) -> None:
    database, topic = streamed.database, f"{streamed.name}.public.lines"
    remade(streamed, topic)
    producer.deleted_topics.add(topic)
    database.execute("CREATE TABLE new (id int PRIMARY KEY); ALTER PUBLICATION walbridge ADD TABLE new")

    wait_until(lambda: streamed.says("was deleted and made again"), "the broker to say so")
    lost = streamed.found("was deleted and made again")
    new = streamed.found("public.new")

    assert errors(streamed) == []
    assert (lost.area, lost.severity) == ("session", Severity.WARNING)
    assert new.text == "table public.new came to the publication: the producer copies it when it runs"
    running = producer.start_streaming()
    running.wait_for_log("table is stale, and is copied again")
    reason = lost.text.removesuffix(": the next session calls table public.lines stale")
    assert reason in running.log
    running.wait_for_log("table=public.new")


@pytest.mark.variant(of="test_what_stops_the_producer_is_the_one_error_in_its_own_words")
def test_rewritten_table_stops_a_producer_that_is_set_to_and_the_look_says_so_and_changes_nothing(
    streamed: Stack, producer: ProducerUnderTest
) -> None:
    streamed.sections["producer"] = producer.settings["producer"] = {"on_table_error": "stop"}
    streamed.database.execute(
        "INSERT INTO orders VALUES (1); ALTER TABLE orders ADD COLUMN at timestamptz DEFAULT clock_timestamp()"
    )

    (first,), (told,) = errors(streamed), errors(streamed)

    assert first == told
    assert f"error: {told.text}\nremedy: {told.remedy}\n" in producer.refusal()
