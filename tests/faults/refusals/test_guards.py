"""Every state that a start refuses, made in real servers: what it says, what mends it, and nothing is touched.

One pipeline goes through them in order: each case brings its state about, and undoes it where it
can be undone. Those that cannot come last, so that each is the first that the producer meets.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.faults.followed import (
    copy_all_again,
    copy_all_into_what_is_left,
    copy_first,
    copy_first_without_progress,
    drop_and_copy_all_again,
    settings_of,
)
from tests.faults.standing import refused_and_untouched
from tests.faults.topic_life import TopicLife
from tests.fix_postgres import new_database
from tests.fix_producer import ProducerUnderTest, refusal_of
from tests.in_soak import in_soak
from tests.log_ends import LogEnds
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.follow import read_own_progress
from walbridge.producer.kafka.partition_log import PartitionLog
from walbridge.schemas.control.progress_record import Progress, encode_progress
from walbridge.schemas.errors import COPY_ALL, COPY_ALL_FIRST, NEW_PIPELINE, NEWER_WALBRIDGE, OperatorError
from walbridge.schemas.position import Lsn
from walbridge.schemas.topics import cuts_topic, data_topic, metadata_topic, progress_topic

pytestmark = pytest.mark.fault


@dataclass
class Settled:
    """A pipeline that has streamed and was stopped."""

    producer: ProducerUnderTest
    progress: Progress
    admin: AdminClient

    def write_progress(self, progress: Progress) -> None:
        self.write(progress_topic(self.producer.name), encode_progress(progress), progress.key)

    def write(self, topic: str, value: bytes, key: bytes) -> None:
        writer = Producer({"bootstrap.servers": self.producer.kafka.bootstrap_servers})
        writer.produce(topic, value, key)
        assert writer.flush(60) == 0

    def configure(self, topic: str, name: str, value: str | None) -> None:
        """Set a topic's setting; None: as it was, by the broker's default."""
        change = AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE
        entry = ConfigEntry(name, value or "", incremental_operation=change)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(60)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(60)
        wait_until(lambda: topic not in self.admin.list_topics(timeout=60).topics, f"{topic} to be gone")


@contextlib.contextmanager
def settled_pipeline(kafka: KafkaBroker, postgres: PostgresServer, folder: Path) -> Iterator[Settled]:
    with new_database(postgres) as database:
        producer = ProducerUnderTest(f"g{database.name.removeprefix('test_')}", database, kafka, folder)
        database.execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a')")
        producer.publish("t")
        try:
            running = producer.start_streaming()
            database.execute("INSERT INTO t VALUES (2, 'b')")
            producer.check_equal()
            running.stop()
            producer.slot_at_rest()
            LogEnds(kafka.bootstrap_servers).wait_visible(progress_topic(producer.name))
            with producer.topics() as topics:
                progress = topics.progress()
            assert progress is not None
            yield Settled(producer, progress, AdminClient({"bootstrap.servers": kafka.bootstrap_servers}))
        finally:
            producer.kill_all()


@pytest.fixture(scope="module")
def settled(
    kafka: KafkaBroker, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settled]:
    """Shared by the states that can be ended again."""
    with settled_pipeline(kafka, postgres, tmp_path_factory.mktemp("guards")) as made:
        yield made


@dataclass(frozen=True)
class Guard:
    """``bring`` makes the state, ``undo`` ends it, where it can be ended; ``what`` and ``remedy``
    are words of the refusal."""

    bring: Callable[[Settled], object]
    what: str
    remedy: str
    undo: Callable[[Settled], object] | None = None
    follow: Callable[[ProducerUnderTest], object] | None = None
    """What the remedy of a state that cannot be ended comes to, where it is not as ``FOLLOWED`` has it."""


def _sql(statement: str) -> Callable[[Settled], None]:
    """Runs SQL in which {slot} is the slot's name."""
    return lambda settled: settled.producer.database.execute(statement.format(slot=settled.producer.slot))


def _progress(**changes: object) -> Callable[[Settled], None]:
    return lambda settled: settled.write_progress(replace(settled.progress, **changes))  # type: ignore[arg-type]


def _data(settled: Settled) -> str:
    return data_topic(settled.producer.name, "public", "t")


def _other_database(settled: Settled) -> None:
    server = settled.producer.database.server
    with psycopg.connect(server.dsn(), autocommit=True) as elsewhere:
        elsewhere.execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    settled.producer.settings["postgres"] = {"dsn": server.dsn()}


def _own_database(settled: Settled) -> None:
    settled.producer.settings.clear()
    with psycopg.connect(settled.producer.database.server.dsn(), autocommit=True) as elsewhere:
        elsewhere.execute("DROP PUBLICATION walbridge")


def _own_progress(settled: Settled) -> None:
    settled.write_progress(settled.progress)


def _move_slot_on(settled: Settled) -> None:
    _sql("INSERT INTO t VALUES (3, 'c')")(settled)  # committed before somebody else takes it from the slot
    _sql("SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")(settled)


def _empty_metadata(settled: Settled) -> None:
    _delete_records(settled, metadata_topic(settled.producer.name), before=-1)


def _cut_progress(settled: Settled) -> None:
    """The newest record of the slot stays, and those of its tables go, which stand before it."""
    topic = progress_topic(settled.producer.name)
    with PartitionLog(settings_of(settled.producer), topic, 0) as log:
        newest = next(message for message in log.backwards() if message.key() == settled.progress.key)
    _delete_records(settled, topic, before=newest.offset() or 0)


def _delete_cuts_and_copy_all(producer: ProducerUnderTest) -> None:
    TopicLife(producer).delete(cuts_topic(producer.name))
    assert COPY_ALL in producer.refusal()
    copy_all_into_what_is_left(producer)


def _delete_records(settled: Settled, topic: str, before: int) -> None:
    """A broker deletes none of a compacted topic, and knows a moment late that a topic is none any more."""

    def deleted() -> bool:
        try:
            settled.admin.delete_records([TopicPartition(topic, 0, before)])[TopicPartition(topic, 0)].result(60)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.POLICY_VIOLATION:
                raise
            return False
        return True

    settled.configure(topic, "cleanup.policy", "delete")
    wait_until(deleted, f"records of {topic} to be deleted")
    settled.configure(topic, "cleanup.policy", "compact")


_REMAKE_SLOT = "SELECT pg_drop_replication_slot('{slot}'); SELECT pg_create_logical_replication_slot('{slot}', "

GUARDS: dict[str, Guard] = {
    "the same cluster's other database": Guard(
        _other_database, "progress is of database", "mend [postgres] dsn", _own_database
    ),
    "publication that lacks operations": Guard(
        _sql("ALTER PUBLICATION walbridge SET (publish = 'insert, delete')"),
        "publication walbridge does not publish update, truncate",
        "SET (publish = 'insert, update, delete, truncate')",
        _sql("ALTER PUBLICATION walbridge SET (publish = 'insert, update, delete, truncate')"),
    ),
    "progress of newer code": Guard(_progress(format_version=99), "format 99 is newer", NEWER_WALBRIDGE, _own_progress),
    "progress behind the slot": Guard(_progress(done=Lsn(1), floor=Lsn(1)), "a gap", COPY_ALL, _own_progress),
    "progress ahead of the server": Guard(
        _progress(done=Lsn(1 << 60)), "but the server's WAL ends at", COPY_ALL, _own_progress
    ),
    "progress topic that would delete": Guard(
        lambda s: s.configure(progress_topic(s.producer.name), "cleanup.policy", "delete"),
        "cleanup.policy=delete, walbridge makes it with compact",
        "kafka-configs.sh --alter",
        lambda s: s.configure(progress_topic(s.producer.name), "cleanup.policy", "compact"),
    ),
    "metadata topic that would delete": Guard(
        lambda s: s.configure(metadata_topic(s.producer.name), "cleanup.policy", "compact,delete"),
        "walbridge makes it with compact",
        "kafka-configs.sh --alter",
        lambda s: s.configure(metadata_topic(s.producer.name), "cleanup.policy", "compact"),
    ),
    "cuts that are kept for less long": Guard(
        lambda s: s.configure(cuts_topic(s.producer.name), "retention.ms", "1000"),
        "retention.ms=1000, walbridge makes it with",
        "kafka-configs.sh --alter",
        lambda s: s.configure(cuts_topic(s.producer.name), "retention.ms", str(14 * 24 * 3600 * 1000)),
    ),
    "data topic that is compacted": Guard(
        lambda s: s.configure(_data(s), "cleanup.policy", "compact"),
        "cleanup.policy=compact, walbridge makes it with delete",
        "kafka-configs.sh --alter",
        lambda s: s.configure(_data(s), "cleanup.policy", "delete"),
    ),
    "progress topic that was emptied": Guard(
        lambda s: s.delete(progress_topic(s.producer.name)),
        "progress says nothing of it",
        "walbridge drop --slot-only",
        _own_progress,
    ),
    "publication that was made again": Guard(
        _sql("DROP PUBLICATION walbridge; CREATE PUBLICATION walbridge FOR TABLE t"),
        "publication walbridge was dropped and made again",
        COPY_ALL,
    ),
    "cuts topic that was made again": Guard(
        lambda s: s.delete(cuts_topic(s.producer.name)),
        ".cuts was deleted and made again",
        COPY_ALL,
        follow=copy_all_into_what_is_left,
    ),
    "cuts topic with more partitions": Guard(
        lambda s: TopicLife(s.producer).grow(cuts_topic(s.producer.name), 2),
        ".cuts has 2 partitions, it must have 1",
        "delete that topic, then start walbridge produce: it makes the topic again",
        follow=_delete_cuts_and_copy_all,
    ),
    "progress that lost what it says of tables": Guard(
        _cut_progress,
        "was cut: ",
        f"must be compact; delete that topic, then {COPY_ALL_FIRST}",
        follow=copy_first_without_progress,
    ),
    "metadata that lost its records": Guard(
        _empty_metadata, "holds no record of relation", COPY_ALL, follow=copy_all_into_what_is_left
    ),
    "metadata of newer code": Guard(
        lambda s: s.write(metadata_topic(s.producer.name), b"\xc3\x01" + bytes(20), b"new"),
        "at offset",
        NEWER_WALBRIDGE,
    ),
    "metadata topic that was made again": Guard(
        lambda s: s.delete(metadata_topic(s.producer.name)),
        ".metadata was deleted and made again",
        COPY_ALL,
        follow=copy_all_into_what_is_left,
    ),
    "slot that was moved on": Guard(
        _move_slot_on,
        "beyond what was published",
        COPY_ALL,
    ),
    "slot that was made again": Guard(_sql(_REMAKE_SLOT + "'pgoutput')"), "a gap", COPY_ALL),
    "slot made for prepared transactions": Guard(
        _sql(_REMAKE_SLOT + "'pgoutput', false, true)"),
        "was made with two_phase",
        "set two_phase = true; or ALTER_REPL",
    ),
    "slot of another plugin": Guard(
        _sql(_REMAKE_SLOT + "'test_decoding')"), "is of plugin test_decoding", f"{COPY_ALL}; else {NEW_PIPELINE}"
    ),
    "slot that is gone": Guard(_sql("SELECT pg_drop_replication_slot('{slot}')"), "and with it the changes", COPY_ALL),
}


FOLLOWED: dict[str, Callable[[ProducerUnderTest], object]] = {
    COPY_ALL: copy_all_again,
    f"{COPY_ALL}; else {NEW_PIPELINE}": drop_and_copy_all_again,
}
"""What the remedies of states that cannot be ended come to, when they are done to the letter."""


@pytest.mark.parametrize("state", [state for state, guard in GUARDS.items() if guard.undo is not None])
def test_state_is_refused_with_its_remedy_and_nothing_is_touched(settled: Settled, state: str) -> None:
    """I7."""
    guard = GUARDS[state]
    assert guard.undo is not None
    guard.bring(settled)
    try:
        refused_and_untouched(settled.producer, guard.what, guard.remedy)
    finally:
        guard.undo(settled)


def test_progress_that_was_emptied_under_a_producer_is_mended_as_its_refusal_says(
    kafka: KafkaBroker, postgres: PostgresServer, tmp_path: Path
) -> None:
    """I7. Without progress ``walbridge drop`` takes the slot for somebody else's: so the slot goes first."""
    with settled_pipeline(kafka, postgres, tmp_path) as settled:
        settled.delete(progress_topic(settled.producer.name))
        settled.producer.refusal()  # makes the topic again

        with pytest.raises(OperatorError, match="was emptied while we ran") as refused:
            read_own_progress(settings_of(settled.producer))

        assert refused.value.remedy.endswith(f"must be compact; {COPY_ALL_FIRST}")
        copy_first(settled.producer)


def test_topic_of_all_tables_that_is_deleted_under_a_producer_stops_it_and_its_remedy_works(
    kafka: KafkaBroker, postgres: PostgresServer, tmp_path: Path
) -> None:
    """I7."""
    with settled_pipeline(kafka, postgres, tmp_path) as settled:
        running = settled.producer.start_streaming()
        settled.delete(cuts_topic(settled.producer.name))
        said = refusal_of(running)
        assert f"topic {cuts_topic(settled.producer.name)} is gone, and with it the records that were in it" in said
        assert COPY_ALL in said
        copy_all_into_what_is_left(settled.producer)


LIKE_ANOTHER = {
    "cuts topic that was made again",
    "metadata topic that was made again",
    "publication that was made again",
    "slot that is gone",
    "slot that was made again",
    "slot that was moved on",
}
"""Another one in each run is noticed by the same comparison, and has the same remedy; of a slot that is gone,
``copies/test_copy_all.py`` shows both."""


@pytest.mark.parametrize(
    "state",
    [in_soak(state) if state in LIKE_ANOTHER else state for state, guard in GUARDS.items() if guard.undo is None],
)
def test_state_that_cannot_be_ended_is_refused_untouched_and_its_remedy_works(
    kafka: KafkaBroker, postgres: PostgresServer, tmp_path: Path, state: str
) -> None:
    """I7."""
    guard = GUARDS[state]
    with settled_pipeline(kafka, postgres, tmp_path) as settled:
        guard.bring(settled)
        refused_and_untouched(settled.producer, guard.what, guard.remedy)
        if follow := guard.follow or FOLLOWED.get(guard.remedy):
            follow(settled.producer)
