"""Another program writes to topics of ours: what it leaves open, and what it leaves behind (I4, I7)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.faults.followed import copy_all_into_what_is_left, settings_of
from tests.faults.log_tail import cut_short
from tests.faults.standing import refused_and_untouched
from tests.fix_postgres import new_database
from tests.fix_producer import ProducerUnderTest, refusal_of
from tests.in_soak import in_soak
from tests.wait import wait_until
from walbridge.check.finding import Finding, Severity
from walbridge.check.source.session import SESSION
from walbridge.check.verb import all_findings
from walbridge.consumer import events
from walbridge.control_records import newest_cut, topics_there
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.schemas.errors import COPY_ALL
from walbridge.schemas.topics import cuts_topic, metadata_topic, progress_topic
from walbridge.tables.read_tables import read_tables
from walbridge.tail import Beginning, parse_position, tail

pytestmark = pytest.mark.fault

WAIT_S = 60.0


@contextlib.contextmanager
def foreign_transaction(producer: ProducerUnderTest, topic: str) -> Iterator[None]:
    """Open, with a record in it, until the block ends: then it is aborted."""
    config = {"bootstrap.servers": producer.kafka.bootstrap_servers, "transactional.id": f"foreign-{topic}"}
    other = Producer(config | {"transaction.timeout.ms": 600_000, "log_level": 0})
    other.init_transactions(WAIT_S)
    other.begin_transaction()
    other.produce(topic, b"not ours", key=b"foreign")
    assert other.flush(WAIT_S) == 0
    yield
    other.abort_transaction(WAIT_S)


def session_finding(producer: ProducerUnderTest, text: str) -> Finding:
    """The one that says this of the next session, whatever the last one has said."""
    findings = list(all_findings(settings_of(producer)))
    said = [finding for finding in findings if text in finding.text and finding.area == SESSION]
    assert len(said) == 1, findings
    return said[0]


@pytest.mark.parametrize("topic_of", [progress_topic, in_soak(metadata_topic)])
def test_transaction_that_another_program_left_open_hides_no_progress_from_a_start(
    following: ProducerUnderTest, topic_of: Callable[[str], str]
) -> None:
    """Progress from before it would be taken for the newest: a gap that is none, or changes that come twice."""
    topic = topic_of(following.name)
    running = following.start_streaming()
    following.check_equal()
    with foreign_transaction(following, topic):
        following.database.execute(
            "INSERT INTO t (v) VALUES (1); ALTER TABLE t ADD w int; INSERT INTO t (v) VALUES (2)"
        )
        running.stop()
        what = f"a transaction that is not this producer's is open in {topic} since offset "
        remedy = f"kafka-transactions.sh abort --topic {topic} --partition 0"
        refused_and_untouched(following, what, remedy)
        finding = session_finding(following, what)
        assert finding.severity is Severity.ERROR
        assert remedy in (finding.remedy or "")

    following.start_streaming()
    following.database.execute("INSERT INTO t (v) VALUES (3)")
    following.check_equal()


def test_transaction_that_another_program_left_open_is_told_while_the_producer_runs(
    following: ProducerUnderTest,
) -> None:
    """It goes on, and the job sees no cut any more."""
    topic = cuts_topic(following.name)
    following.start_streaming()
    following.check_equal()
    with foreign_transaction(following, topic):
        following.database.execute("INSERT INTO t (v) VALUES (1)")
        what = f"a transaction that is not this producer's is open in {topic} since offset "
        finding = session_finding(following, what)
        assert finding.severity is Severity.ERROR
        assert f"kafka-transactions.sh abort --topic {topic} --partition 0" in (finding.remedy or "")


WAL_END = "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"
NOT_OURS = {
    "garbage": b"not ours",
    "a tombstone": None,
    "JSON": b'{"schema_id":"0123456789abcdef"}',
}
OF_NO_FRAMING = {"text": b"not ours", "nothing": b"", "JSON": b'{"id":1}'}


def end_of_cuts(producer: ProducerUnderTest) -> int:
    newest = newest_cut(settings := settings_of(producer), topics_there(settings))
    return 0 if newest is None else newest.cut.end_lsn


def write_what_is_not_ours(producer: ProducerUnderTest, value: bytes | None) -> None:
    """Under keys of nobody, and under those that the producer looks at."""
    slot, other = producer.slot.encode(), Producer({"bootstrap.servers": producer.kafka.bootstrap_servers})
    for topic_of in (progress_topic, metadata_topic, cuts_topic):
        other.produce(topic_of(producer.name), value, key=b"foreign")
    for key in (slot, slot + b"/copies", slot + b"/1/copy"):
        other.produce(progress_topic(producer.name), value, key=key)
    assert other.flush(WAIT_S) == 0


@pytest.mark.parametrize("value", NOT_OURS.values(), ids=NOT_OURS)
def test_records_of_another_program_in_topics_of_all_tables_are_left_out(
    following: ProducerUnderTest, value: bytes | None
) -> None:
    """Nobody can take them away again. What they are to compaction is told once it is missing."""
    following.start_streaming().stop()
    write_what_is_not_ours(following, value)

    running = following.start_streaming()
    following.database.execute("INSERT INTO t (v) VALUES (1); ALTER TABLE t ADD w int; INSERT INTO t (v) VALUES (2)")
    wait_until(lambda: end_of_cuts(following) >= following.database.value(WAL_END), "a cut behind the rows")
    running.stop()

    seen = read_tables(settings_of(following), needs_postgres=False)
    assert [table.name for table in seen.tables] == ["public.t"]
    kafka = {"bootstrap.servers": following.kafka.bootstrap_servers}
    with events(following.name, ["public.t"], kafka, transactions=True, follow=False) as stream:
        found = [event.after["v"] for transactions in stream for event in transactions if event.after]
    assert found == [0, 1, 2]


@pytest.mark.parametrize("topic_of", [cuts_topic, in_soak(metadata_topic), in_soak(progress_topic)])
def test_topic_of_all_tables_that_somebody_made_too_small_takes_records_again_from_the_next_session_on(
    following: ProducerUnderTest, topic_of: Callable[[str], str]
) -> None:
    running = following.start_streaming()
    configure(following, topic_of(following.name), "max.message.bytes", "100")
    following.database.execute("ALTER TABLE t ADD w int; INSERT INTO t (v) VALUES (1)")
    following.check_equal()
    assert "Message size too large" in running.log
    assert running.process.poll() is None


def test_topic_of_all_tables_that_somebody_has_compacted_stops_the_next_session(following: ProducerUnderTest) -> None:
    """Cuts have no keys, so the broker takes none of them any more: the producer would try it for ever."""
    topic = cuts_topic(following.name)
    running = following.start_streaming()
    configure(following, topic, "cleanup.policy", "compact")
    following.database.execute("INSERT INTO t (v) VALUES (1)")
    said = refusal_of(running)
    assert f"topic {topic} has cleanup.policy=compact, walbridge makes it with delete" in said
    assert "--add-config cleanup.policy=delete" in said
    assert "walbridge check names all topics that differ" in said
    configure(following, topic, "cleanup.policy", "delete")
    following.start_streaming()
    following.check_equal()


def configure(producer: ProducerUnderTest, topic: str, name: str, value: str) -> None:
    """As ``kafka-configs.sh --alter --add-config`` does."""
    admin = AdminClient({"bootstrap.servers": producer.kafka.bootstrap_servers})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


@pytest.fixture
def with_own_servers(pipeline_name: str, tmp_path: Path) -> Iterator[ProducerUnderTest]:
    """Which it follows ``t`` with."""
    with PostgresServer() as server, new_database(server) as database, KafkaBroker() as broker:
        database.execute("CREATE TABLE t (id serial PRIMARY KEY, v int); INSERT INTO t (v) VALUES (0)")
        producer = ProducerUnderTest(pipeline_name, database, broker, tmp_path)
        producer.publish("t")
        try:
            yield producer
        finally:
            producer.kill_all()


@pytest.mark.parametrize("topic_of", [progress_topic, in_soak(cuts_topic)])
def test_topic_of_all_tables_that_lost_its_end_in_a_power_cut_is_noticed_though_the_slot_stands_before_it(
    with_own_servers: ProducerUnderTest, topic_of: Callable[[str], str]
) -> None:
    """Where one machine has both, Postgres forgets as well what was confirmed since its checkpoint. What was published
    since then was published again, under the numbers of cuts that were there (I4, I7)."""
    producer = with_own_servers
    running = producer.start_streaming()
    producer.check_equal()
    producer.database.execute("CHECKPOINT")
    for number in range(3):
        producer.database.execute(f"INSERT INTO t (v) VALUES ({number})")
        producer.check_equal()
    running.kill()
    producer.database.server.kill()
    cut_short(producer.kafka, topic_of(producer.name), batches=6)
    producer.database.server.start()

    found = session_finding(producer, "a broker lost what it had acknowledged")
    said = refusal_of(producer.start())

    assert found.severity is Severity.ERROR
    assert "a broker lost what it had acknowledged" in said
    assert COPY_ALL in said
    copy_all_into_what_is_left(producer)


@pytest.mark.parametrize("value", OF_NO_FRAMING.values(), ids=OF_NO_FRAMING)
def test_records_of_another_program_in_the_topic_of_a_table_are_left_out_by_its_readers(
    following: ProducerUnderTest, value: bytes
) -> None:
    """Nobody can take them away again, and cuts count what walbridge wrote (I7)."""
    running = following.start_streaming()
    topic, other = f"{following.name}.public.t", Producer({"bootstrap.servers": following.kafka.bootstrap_servers})
    for number in range(1, 4):
        following.database.execute(f"INSERT INTO t (v) VALUES ({number})")
        wait_until(lambda: end_of_cuts(following) >= following.database.value(WAL_END), "a cut behind the row")
        other.produce(topic, value, key=b"foreign", partition=0)
        assert other.flush(WAIT_S) == 0
    running.stop()

    kafka = {"bootstrap.servers": following.kafka.bootstrap_servers}
    with events(following.name, ["public.t"], kafka, transactions=True, follow=False) as groups:
        found = [event.after["v"] for transactions in groups for event in transactions if event.after]
    with events(following.name, ["public.t"], kafka, follow=False) as stream:
        found_alone = [event.after["v"] for event in stream if event.after]
    assert (found, found_alone) == ([0, 1, 2, 3], [0, 1, 2, 3])


def test_tail_leaves_out_records_of_another_program(
    following: ProducerUnderTest, capsys: pytest.CaptureFixture[str]
) -> None:
    running = following.start_streaming()
    following.check_equal()
    other = Producer({"bootstrap.servers": following.kafka.bootstrap_servers})
    for number in range(1, 4):
        other.produce(f"{following.name}.public.t", b"not ours", partition=0)
        assert other.flush(WAIT_S) == 0
        following.database.execute(f"INSERT INTO t (v) VALUES ({number})")
        wait_until(lambda: end_of_cuts(following) >= following.database.value(WAL_END), "a cut behind the row")
    running.stop()

    for beginning in (Beginning(last=3), Beginning(parse_position("0/0"))):
        assert tail(settings_of(following), "t", beginning, follow=False, say=print) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [line["after"]["v"] for line in lines if "after" in line][-3:] == [1, 2, 3]
