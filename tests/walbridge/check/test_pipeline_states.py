"""A pipeline that has streamed, its topics brought into each state; and looks while a peer is away."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest
from tests.wait import wait_until
from tests.walbridge.check.stack import Stack
from walbridge.check import check, reached
from walbridge.check.finding import Finding, Severity
from walbridge.check.source import slot
from walbridge.embedded.jars import set_jars
from walbridge.embedded.java import find_java
from walbridge.embedded.kafka import KafkaBroker
from walbridge.init import initialise
from walbridge.schemas.errors import COPY_ALL, NEW_PIPELINE, START_BROKER
from walbridge.schemas.topics import cuts_topic, metadata_topic, progress_topic, status_topic

AREAS = [
    "server",
    "role",
    "publication",
    "tables",
    "broker",
    "topics",
    "rights",
    "session",
    "slot",
    "lake",
    "spool",
    "memory",
    "java",
    "jars",
]
OF_SETTINGS = ("programs", "registry")
"""Areas with findings only where a program has run, or settings name a registry."""
OF_A_TEST_SERVER = {("server", Severity.WARNING), ("broker", Severity.ADVICE)}
"""No max_slot_wal_keep_size, and one replica: so are the servers that tests share."""
CONFIGURE = re.compile(r"kafka-configs\.sh (.*?)(?:; or mend \[topics\])?")


@pytest.fixture
def streamed(producer: ProducerUnderTest) -> Stack:
    """Two tables, copied and followed; the producer has been stopped."""
    producer.database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY); CREATE TABLE lines AS SELECT 1 AS id; "
        "ALTER TABLE lines ADD PRIMARY KEY (id)"
    )
    producer.publish("orders", "lines")
    running = producer.start_streaming()
    with producer.topics() as topics:
        producer.caught_up(topics)
    running.stop()
    return Stack(producer.database, producer.kafka, producer.name, producer.folder)


def admin(stack: Stack) -> AdminClient:
    return AdminClient({"bootstrap.servers": stack.kafka.bootstrap_servers})


def configure(stack: Stack, topic: str, name: str, value: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    client = admin(stack)
    client.incremental_alter_configs([resource])[resource].result(60)


def carry_out(remedy: str | None) -> None:
    """Kafka's own program, with the arguments as they are printed."""
    assert remedy is not None
    arguments = CONFIGURE.fullmatch(remedy)
    assert arguments is not None, remedy
    jars = ":".join(map(str, set_jars("kafka")))
    command = [str(find_java().executable), "-XX:TieredStopAtLevel=1", "-cp", jars, "kafka.admin.ConfigCommand"]
    done = subprocess.run(
        [*command, *shlex.split(arguments[1])], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def settled(stack: Stack, text: str) -> Finding:
    """What a broker was just told it may say a moment later."""
    wait_until(lambda: stack.says(text), f"a finding of {text!r}")
    return stack.found(text)


def test_healthy_pipeline_has_no_errors_and_a_topic_that_was_changed_is_put_back_by_the_command(
    streamed: Stack, producer: ProducerUnderTest, capsys: pytest.CaptureFixture[str]
) -> None:
    running = producer.start_streaming()

    assert check(streamed.settings, as_json=True) == 0

    shown = json.loads(capsys.readouterr().out)
    assert shown["counts"]["error"] == 0
    areas = list(dict.fromkeys(each["area"] for each in shown["findings"]))
    # The program says that it runs a moment after it does.
    assert [each for each in areas if each != "programs"] == AREAS
    assert {(each["area"], each["severity"]) for each in shown["findings"]} - {
        (area, "ok") for area in areas
    } == OF_A_TEST_SERVER
    texts = [each["text"] for each in shown["findings"]]
    assert any(text.startswith(f"{streamed.name}: in use (pid ") for text in texts)
    assert any(re.fullmatch(r"server, slot and progress fit together \(cut \d+, streaming\)", text) for text in texts)
    assert "5 topics have the settings that they must have" in texts
    # The look fenced nobody and held up nothing.
    producer.database.execute("INSERT INTO orders VALUES (7)")
    producer.check_equal()
    running.stop()

    topic = f"{streamed.name}.public.orders"
    configure(streamed, topic, "retention.ms", "60000")
    short = settled(streamed, f"topic {topic} has retention.ms=60000, walbridge makes it with 604800000")
    assert (short.area, short.severity) == ("topics", Severity.ERROR)
    assert short.remedy == (
        f"kafka-configs.sh --alter --bootstrap-server {streamed.kafka.bootstrap_servers} --topic {topic} "
        "--add-config retention.ms=604800000; or mend [topics]"
    )
    assert check(streamed.settings, as_json=False) == 2
    assert f"error    topics: {short.text}\n         → {short.remedy}\n" in capsys.readouterr().out

    carry_out(short.remedy)

    wait_until(lambda: streamed.troubles() == OF_A_TEST_SERVER, "all to be well again")


def test_each_topic_that_would_lose_what_must_be_kept_is_an_error_of_its_own(streamed: Stack) -> None:
    name = streamed.name
    faults = {
        metadata_topic(name): ("cleanup.policy", "delete", "compact"),
        cuts_topic(name): ("retention.ms", "1000", str(2 * 604_800_000)),
        progress_topic(name): ("cleanup.policy", "compact,delete", "compact"),
        f"{name}.public.lines": ("cleanup.policy", "compact", "delete"),
    }
    for topic, (key, wrong, _) in faults.items():
        configure(streamed, topic, key, wrong)
    wait_until(lambda: sum("walbridge makes it" in each.text for each in streamed.findings()) == 4, "four findings")

    found = [each for each in streamed.findings() if each.area == "topics"]

    assert {each.severity for each in found} == {Severity.ERROR}
    assert [each.text for each in found] == [
        f"topic {topic} has {key}={wrong}, walbridge makes it with {right}"
        for topic, (key, wrong, right) in faults.items()
    ]
    for each, (topic, (key, _, right)) in zip(found, faults.items(), strict=True):
        assert each.remedy is not None
        assert f"--topic {topic} --add-config {key}={right};" in each.remedy
        configure(streamed, topic, key, right)
    wait_until(lambda: not streamed.says("walbridge makes it"), "the findings to go away")

    configure(streamed, status_topic(name), "cleanup.policy", "delete")
    silent = settled(streamed, "without it nobody is told when and why walbridge produce ended")
    assert silent.severity is Severity.ADVICE
    assert f"--topic {status_topic(name)} --add-config cleanup.policy=compact;" in str(silent.remedy)
    configure(streamed, status_topic(name), "cleanup.policy", "compact")
    wait_until(lambda: not streamed.says("nobody is told"), "the finding to go away")


def test_topic_that_takes_no_record_of_a_clock_ahead_of_the_brokers_is_told_with_the_command(streamed: Stack) -> None:
    """As those are that were made before the producer asked for the broker's clock. A start takes them as they are."""
    topic = cuts_topic(streamed.name)
    configure(streamed, topic, "message.timestamp.type", "CreateTime")

    old = settled(streamed, f"topic {topic} has message.timestamp.type=CreateTime: while the clock of the producer is ")

    assert (old.area, old.severity) == ("topics", Severity.ADVICE)
    carry_out(old.remedy)
    wait_until(lambda: streamed.troubles() == OF_A_TEST_SERVER, "all to be well again")


def test_topics_that_grew_or_went_are_told_and_a_slot_that_was_taken_is_an_error(streamed: Stack) -> None:
    name, client = streamed.name, admin(streamed)
    orders, lines = f"{name}.public.orders", f"{name}.public.lines"
    client.create_partitions([NewPartitions(orders, 3)])[orders].result(60)
    client.delete_topics([lines])[lines].result(60)
    drop_slot(streamed.database, name)
    make = "SELECT pg_create_logical_replication_slot(%s, 'test_decoding')"
    streamed.database.rows(make, (name,))

    grown = settled(
        streamed, f"topic {orders} has 3 partitions, its rows were spread over 1: its keys would change partitions"
    )
    gone = settled(streamed, f"topic {lines} of table public.lines is gone, and with it the events that were in it")
    taken = streamed.found(f"slot {name} is of plugin test_decoding in database {streamed.database.name}")

    assert (grown.severity, gone.severity, taken.severity) == (Severity.WARNING, Severity.WARNING, Severity.ERROR)
    assert (
        grown.remedy == "none is needed: walbridge produce copies the table, and readers have it as it was until then"
    )
    assert gone.remedy == grown.remedy
    assert taken.remedy == (
        f"somebody else made it; if nobody needs it: SELECT pg_drop_replication_slot('{name}'); then {COPY_ALL}; "
        f"else {NEW_PIPELINE}"
    )
    # The slot of before is lost for good: with none, the same guard says so.
    drop_slot(streamed.database, name)
    assert streamed.found(f"slot {name} is gone, and with it the changes after").severity is Severity.ERROR


def drop_slot(database: Database, name: str) -> None:
    free = "SELECT active_pid IS NULL FROM pg_replication_slots WHERE slot_name = %s"
    wait_until(lambda: bool(database.value(free, (name,))), "the slot to be free")
    database.rows("SELECT pg_drop_replication_slot(%s)", (name,))


@pytest.fixture
def stack(database: Database, kafka: KafkaBroker, pipeline_name: str, tmp_path: Path) -> Stack:
    """A database with a table; nothing else is there yet."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    postgres = {"publication_tables": ["orders"]}
    return Stack(database, kafka, pipeline_name, tmp_path, sections={"postgres": postgres})


def test_newcomer_is_told_to_init_and_then_nothing_is_left_to_do_before_the_start(stack: Stack) -> None:
    before = stack.findings()

    wanted = [each.text for each in before if each.remedy == "walbridge init"]
    names = ", ".join(topic(stack.name) for topic in (metadata_topic, cuts_topic, progress_topic))
    assert wanted == [
        "publication walbridge does not exist yet",
        f"not there yet, but can be made: {names}",
        f"slot {stack.name} does not exist yet",
    ]
    assert not [each for each in before if each.severity is Severity.ERROR]

    initialise(stack.settings, "reader", lambda line: None)

    assert stack.troubles() == OF_A_TEST_SERVER
    assert stack.says("server, slot and progress fit together (cut 0, creating)")


def test_producer_that_was_stopped_is_started_as_two_findings_say(
    streamed: Stack, producer: ProducerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``walbridge produce``."""
    monkeypatch.setattr(slot, "MUCH_WAL_BYTES", -1)
    (stopped,) = [each for each in streamed.findings() if each.area == "programs"]
    unread = streamed.found("and nobody reads it")

    assert (stopped.severity, stopped.remedy) == (Severity.ADVICE, "walbridge produce")
    assert unread.severity is Severity.WARNING
    assert str(unread.remedy).startswith("walbridge produce; or")
    producer.start_streaming()
    wait_until(lambda: not streamed.says("and nobody reads it"), "the slot to be read")
    wait_until(lambda: streamed.says("walbridge produce runs"), "the producer to say that it runs")


def test_control_topic_with_more_partitions_is_an_error(stack: Stack) -> None:
    initialise(stack.settings, "reader", lambda line: None)
    cuts = cuts_topic(stack.name)
    client = admin(stack)
    client.create_partitions([NewPartitions(cuts, 2)])[cuts].result(60)

    found = settled(stack, f"topic {cuts} has 2 partitions, it must have 1")

    assert found.severity is Severity.ERROR
    assert found.remedy == (
        "delete that topic, then start walbridge produce: it makes the topic again; if this pipeline has begun, it "
        "says then how all tables are copied again"
    )


def test_topic_that_the_broker_would_refuse_is_an_error_before_anything_is_made(stack: Stack) -> None:
    stack.sections["topics"] = {"replication_factor": 3}

    refused = [each for each in stack.findings() if each.area == "topics"]

    assert [each.severity for each in refused] == [Severity.ERROR] * 3
    assert refused[0].text.startswith(f"topic {metadata_topic(stack.name)} could not be made: ")
    assert "replication factor" in refused[0].text
    assert refused[0].remedy == "mend [topics] or the name, or grant CREATE on it to walbridge's principal"
    assert stack.found("new topics get 3 replicas, but there is 1 broker").severity is Severity.ERROR
    stack.sections["topics"] = {"replication_factor": 1}
    assert not stack.says("could not be made")


def test_without_a_broker_all_the_rest_is_still_checked(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reached, "ANSWER_S", 0.2)
    stack.sections["kafka"] = {"bootstrap_servers": "127.0.0.1:1"}

    findings = stack.findings()

    # Of tables there is nothing to say: the publication is still to be made.
    areas = dict.fromkeys(each.area for each in findings if each.area not in OF_SETTINGS)
    assert list(areas) == [area for area in AREAS if area != "tables"]
    (away,) = [each for each in findings if each.severity is Severity.ERROR]
    assert (away.area, "Kafka at 127.0.0.1:1 cannot be reached" in away.text) == ("broker", True)
    assert away.remedy == START_BROKER
    unknown = [each.area for each in findings if each.text == "not checked: Kafka did not answer in full"]
    assert unknown == ["topics", "rights", "session", "slot", "lake"]
    assert stack.says("may replicate")
    stack.sections["kafka"] = {}
    assert not [each for each in stack.findings() if each.severity is Severity.ERROR]


def test_without_postgres_all_the_rest_is_still_checked(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reached, "ANSWER_S", 0.2)
    stack.sections["postgres"] = {"dsn": "host=127.0.0.1 port=1 dbname=d user=u password=hunter2"}

    findings = stack.findings()

    assert list(dict.fromkeys(each.area for each in findings if each.area not in OF_SETTINGS)) == AREAS
    (away,) = [each for each in findings if each.severity is Severity.ERROR]
    assert (away.area, "cannot be reached" in away.text) == ("server", True)
    unknown = [each.area for each in findings if each.text == "not checked: Postgres did not answer in full"]
    assert unknown == ["role", "publication", "tables", "session", "slot"]
    assert stack.says("not there yet, but can be made")
    assert "hunter2" not in repr(findings)


def test_without_a_database_in_the_settings_that_is_said(stack: Stack) -> None:
    stack.sections["postgres"] = {"dsn": ""}

    found = stack.found("no database is named")

    assert (found.area, found.severity) == ("server", Severity.ERROR)
