"""What only an operator can mend: exit code 2, what and how in one clear message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from confluent_kafka.cimpl import NewTopic

from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest, refusal_of
from tests.wait import wait_until
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.kafka.publisher import Publisher
from walbridge.producer.metrics import ProducerMetrics
from walbridge.producer.postgres.source import Source
from walbridge.producer.session.transaction_spool import Spool
from walbridge.producer.start import start
from walbridge.producer.waits import Waits
from walbridge.schemas.progress_record import Progress, encode_progress
from walbridge.schemas.settings_file import load_settings
from walbridge.schemas.topics import cuts_topic, data_topic, progress_topic

pytestmark = pytest.mark.fault


def _table(producer: ProducerUnderTest) -> None:
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")


def _slot_count(producer: ProducerUnderTest) -> int:
    query = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"
    return int(producer.database.value(query, (producer.slot,)))


def test_database_that_does_not_let_us_in_is_refused(producer: ProducerUnderTest) -> None:
    dsn = producer.database.dsn
    cases = {
        dsn.replace("user=postgres", "user=nobody_we_know password=hunter2-secret"): "nobody_we_know",
        dsn.replace(producer.database.name, "no_such_database"): "no_such_database",
        "host=127.0.0.1 port=1 dbname=d user=u password=hunter2-secret": "cannot be reached",
        "": "no database is named",
    }
    for wrong, words in cases.items():
        producer.settings["postgres"] = {"dsn": wrong, "start_timeout_s": 1}
        said = producer.refusal()
        assert words in said
        assert "hunter2-secret" not in said


def test_role_without_rights_is_told_which(producer: ProducerUnderTest, make_database: Callable[[], Database]) -> None:
    """Refused before there is a slot that holds WAL back, or with a slot that the next start takes."""
    _table(producer)
    producer.publish("t")
    role = f"role_{producer.name}"
    producer.database.execute(f"CREATE ROLE {role} LOGIN")
    try:
        producer.settings["postgres"] = {"dsn": producer.database.dsn.replace("user=postgres", f"user={role}")}
        assert "42501" in producer.refusal()
        producer.database.execute(f"ALTER ROLE {role} REPLICATION")
        words = producer.refusal()
        assert "may not read public.t" in words
        assert 'GRANT SELECT ON "public"."t"' in words
        producer.database.execute(f"GRANT SELECT ON t TO {role}")
        producer.start_streaming().stop()
    finally:
        producer.database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_publication_that_is_missing_empty_or_dropped_is_refused(producer: ProducerUnderTest) -> None:
    _table(producer)
    words = producer.refusal()
    assert "publication walbridge does not exist" in words
    assert 'CREATE PUBLICATION "walbridge"' in words
    producer.database.execute("CREATE PUBLICATION walbridge")
    assert "holds no tables" in producer.refusal()
    assert _slot_count(producer) == 0
    producer.settings["postgres"] = {"publication": "other", "publication_tables": ["public.nothing"]}
    assert '"public.nothing" does not exist' in producer.refusal()
    producer.settings["postgres"] = {"publication_tables": ["t"]}
    producer.database.execute("ALTER PUBLICATION walbridge ADD TABLE t")
    running = producer.start_streaming()
    # From Postgres 18 on the stream only falls silent; and a new one would hide the gap.
    producer.database.execute("DROP PUBLICATION walbridge; INSERT INTO t VALUES (2)")
    assert "was dropped" in refusal_of(running)
    assert "was dropped" in producer.refusal()


def test_row_filter_that_fails_on_a_row_is_refused_without_quoting_it(producer: ProducerUnderTest) -> None:
    """I10. In the copy and in the stream: the same row would end every session anew."""
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a')")
    producer.publish("t WHERE (cardinality(parse_ident(v)) > 0)")
    running = producer.start_streaming()
    producer.database.execute("INSERT INTO t VALUES (2, 'canary of a row')")
    for words in (refusal_of(running), _refusal_in_a_copy(producer)):
        assert "(22023): InvalidParameterValue" in words
        assert "mend the filter or the row" in words
        assert "canary" not in words
    assert "canary" not in running.log


def _refusal_in_a_copy(producer: ProducerUnderTest) -> str:
    producer.name += "b"
    return producer.refusal()


def test_server_without_logical_wal_is_refused(producer: ProducerUnderTest) -> None:
    with PostgresServer({"wal_level": "replica"}) as server:
        producer.settings["postgres"] = {"dsn": server.dsn()}
        words = producer.refusal()
    assert "wal_level = replica" in words
    assert "ALTER SYSTEM SET wal_level = logical" in words


def test_slot_without_progress_of_ours_is_refused(producer: ProducerUnderTest) -> None:
    """It may be somebody's; and if it was ours, what it has passed is gone."""
    _table(producer)
    producer.publish("t")
    producer.database.execute(f"SELECT pg_create_logical_replication_slot('{producer.slot}', 'pgoutput')")
    words = producer.refusal()
    assert f"slot {producer.slot} exists" in words
    mends = f"SELECT pg_drop_replication_slot('{producer.slot}')"
    assert mends in words
    assert _slot_count(producer) == 1
    producer.database.execute(mends)
    producer.start_streaming().stop()


def _write_progress(producer: ProducerUnderTest, progress: Progress) -> None:
    writer = Producer({"bootstrap.servers": producer.kafka.bootstrap_servers})
    writer.produce(progress_topic(producer.name), encode_progress(progress), progress.key)
    assert writer.flush(60) == 0


@pytest.mark.parametrize("state", ["streaming", "copying"])
def test_progress_of_another_server_or_database_is_refused(producer: ProducerUnderTest, state: str) -> None:
    """Also in mid copy: beginning it again would drop a slot of that name that is not ours."""
    _table(producer)
    producer.publish("t")
    producer.start_streaming().stop()
    with producer.topics() as topics:
        ours = topics.progress()
    assert ours is not None
    _write_progress(producer, replace(ours, state=state, system_id="7000000000000000001"))
    assert "another Postgres cluster" in producer.refusal()
    _write_progress(producer, replace(ours, state=state, database="elsewhere"))
    assert "progress is of database elsewhere" in producer.refusal()
    assert _slot_count(producer) == 1
    _write_progress(producer, replace(ours, timeline=ours.timeline + 1))
    assert "does not come from timeline" in producer.refusal()


def test_slot_of_another_database_is_not_dropped_for_a_copy(
    producer: ProducerUnderTest, make_database: Callable[[], Database]
) -> None:
    _table(producer)
    producer.publish("t")
    producer.run_until_killed("copy:creating")
    elsewhere = make_database()
    elsewhere.execute(f"SELECT pg_create_logical_replication_slot('{producer.slot}', 'pgoutput')")
    assert f"in database {elsewhere.name}" in producer.refusal()
    assert _slot_count(producer) == 1


def test_table_that_came_after_the_copy_is_refused_with_what_to_do(producer: ProducerUnderTest) -> None:
    """I7: its rows of before are not here. A table that is announced only is no reason to stop."""
    _table(producer)
    producer.publish("t")
    running = producer.start_streaming()
    producer.database.execute("CREATE TABLE late (id int PRIMARY KEY); ALTER PUBLICATION walbridge ADD TABLE late")
    producer.database.execute("INSERT INTO t VALUES (2)")
    producer.check_equal(never_copied=frozenset({"late"}))
    producer.database.execute("INSERT INTO late VALUES (1)")
    for words in (refusal_of(running), producer.refusal()):
        assert "table public.late" in words
        assert "walbridge init" in words


def test_table_made_anew_under_its_name_is_refused(producer: ProducerUnderTest) -> None:
    _table(producer)
    producer.database.execute("CREATE PUBLICATION walbridge FOR TABLES IN SCHEMA public")
    running = producer.start_streaming()
    producer.database.execute("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (5)")
    words = refusal_of(running)
    assert "created again" in words


@pytest.mark.parametrize("while_running", [True, False])
def test_renamed_table_is_refused_until_it_has_its_name_again(producer: ProducerUnderTest, while_running: bool) -> None:
    """Its rows would go on in another topic."""
    _table(producer)
    producer.publish("t")
    running = producer.start_streaming()
    producer.database.execute("INSERT INTO t VALUES (2)")
    producer.check_equal()
    if not while_running:
        running.stop()
    producer.database.execute("ALTER TABLE t RENAME TO u; INSERT INTO u VALUES (3)")
    words = refusal_of(running) if while_running else producer.refusal()
    assert "table public.t is now called public.u" in words
    assert "rename it back" in words
    producer.database.execute("ALTER TABLE u RENAME TO t; INSERT INTO t VALUES (4)")
    producer.start_streaming()
    producer.check_equal()


def test_topic_that_was_given_more_partitions_is_refused(producer: ProducerUnderTest) -> None:
    """I3, found before a commit even if no row falls into the new partition, and at a restart."""
    producer.settings["topics"] = {"partitions": 2}
    producer.settings["kafka"] = {"client": {"topic.metadata.refresh.interval.ms": "100"}}
    _table(producer)
    producer.publish("t")
    running = producer.start_streaming()
    producer.database.execute("INSERT INTO t VALUES (2)")
    producer.check_equal()
    topic = data_topic(producer.name, "public", "t")
    admin = AdminClient({"bootstrap.servers": producer.kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(60)
    wait_until(lambda: len(admin.list_topics(topic, 60).topics[topic].partitions) == 3, "the new partition")
    with producer.topics() as topics:
        committed = topics.cuts()[-1]
    producer.database.execute("UPDATE t SET id = id WHERE id = 2")
    assert f"topic {topic} has 3 partitions, its rows were spread over 2" in refusal_of(running)
    assert f"topic {topic} has 3 partitions" in producer.refusal()
    with producer.topics() as topics:
        assert [cut for cut in topics.cuts() if cut.cut_id > committed.cut_id and cut.partitions] == []


def test_table_that_loses_its_key_over_several_partitions_is_refused(producer: ProducerUnderTest) -> None:
    producer.settings["topics"] = {"partitions": 2}
    _table(producer)
    producer.publish("t")
    running = producer.start_streaming()
    producer.database.execute("ALTER TABLE t DROP CONSTRAINT t_pkey; INSERT INTO t VALUES (2)")
    assert "has no key any more" in refusal_of(running)


def test_topic_with_other_settings_is_refused(producer: ProducerUnderTest) -> None:
    _table(producer)
    producer.publish("t")
    admin = AdminClient({"bootstrap.servers": producer.kafka.bootstrap_servers})
    name = cuts_topic(producer.name)
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(60)
    assert f"topic {name} has 2 partitions, it must have 1" in producer.refusal()
    other = replace_name(producer)
    # The broker's defaults are not what progress must have.
    admin.create_topics([NewTopic(progress_topic(other), 1, 1)])[progress_topic(other)].result(60)
    words = producer.refusal()
    assert "cleanup.policy" in words
    assert "kafka-configs --alter" in words


def replace_name(producer: ProducerUnderTest) -> str:
    """Another pipeline name for the same test."""
    producer.name += "b"
    return producer.name


def test_row_larger_than_allowed_is_refused_and_named_by_table_key_columns_and_place(
    producer: ProducerUnderTest,
) -> None:
    """I7, I10: what the operator needs to find it, and nothing that stands in it."""
    producer.database.execute('CREATE TABLE t (id int, "Part" text, v text, PRIMARY KEY (id, "Part"))')
    producer.publish("t")
    producer.settings["producer"] = {"row_bytes_max": 100_000}
    running = producer.start_streaming()
    # Rows are queued one behind: the one named must not be the next one.
    producer.database.execute(
        "INSERT INTO t VALUES (1, 'p', ''), (4242424, 'qq', repeat('x', 1000000)), (2, 'p', ''), (3, 'p', '')"
    )
    words = refusal_of(running)
    assert "a row of table public.t (key: id, Part) takes 1,000," in words
    assert ", ordinal 1: [producer] row_bytes_max is 100,000" in words
    assert not [value for value in ("xxxx", "4242424", "qq") if value in words]
    query = words[words.index("SELECT") :].splitlines()[0]
    assert producer.database.rows(query) == [(4242424, "qq")]
    producer.database.execute("CREATE TABLE u (id int)")
    producer.settings["producer"] = {"row_bytes_max": 10_000_000}
    assert "max.message.bytes" in producer.refusal()


def test_second_producer_of_a_slot_takes_it_over_and_the_first_ends(producer: ProducerUnderTest) -> None:
    """Fenced: one goes on, nothing is lost, nothing comes twice."""
    _table(producer)
    producer.publish("t")
    first = producer.start_streaming()
    producer.database.execute("INSERT INTO t SELECT generate_series(10, 50)")
    second = producer.start()
    wait_until(lambda: "stream begins again" in second.log or "streaming" in second.log, "the second to begin")
    producer.database.execute("INSERT INTO t SELECT generate_series(51, 100)")
    words = refusal_of(first)
    assert "another producer runs under transactional id" in words
    second.wait_for_log("streaming")
    producer.database.execute("INSERT INTO t SELECT generate_series(101, 120)")
    producer.check_equal()
    assert second.process.poll() is None


def test_what_the_first_published_while_the_second_started_is_no_older_backup(
    producer: ProducerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the second has fenced it, the first goes on, past the end of the WAL that the second saw before."""
    _table(producer)
    producer.publish("t")
    producer.start_streaming()
    opened = Publisher.open_instance

    def publish_first(publisher: Publisher, timeout_s: float) -> None:
        producer.database.execute("INSERT INTO t VALUES (2)")
        with producer.topics() as topics:
            producer.caught_up(topics)
        opened(publisher, timeout_s)

    monkeypatch.setattr(Publisher, "open_instance", publish_first)
    settings = load_settings(str(producer.folder / "walbridge.toml"))
    source, spool = Source(settings), Spool(settings)

    second = start(settings, source, spool, Waits(lambda: False), ProducerMetrics())
    spool.close()
    source.close()

    assert second.progress is not None
    assert second.server.wal_end >= second.progress.done
