"""What only an operator can mend in Postgres: exit code 2, what and how in one clear message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from tests.faults.followed import copy_all_again, drop_slot_only, settings_of
from tests.faults.one_table import make_table
from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest, refusal_of
from tests.in_soak import in_variants
from walbridge.embedded.postgres import PostgresServer
from walbridge.init import initialise
from walbridge.schemas.control.progress_record import Progress, encode_progress
from walbridge.schemas.errors import COPY_ALL, StreamLost
from walbridge.schemas.topics import progress_topic
from walbridge.tables.copy_all import copy_all

pytestmark = pytest.mark.fault


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
        # Only where nobody listens is it waited for: a server that does may be late with its answer.
        producer.settings["postgres"] = {"dsn": wrong} | ({"start_timeout_s": 1} if "port=1 " in wrong else {})
        said = producer.refusal()
        assert words in said
        assert "hunter2-secret" not in said


def test_role_without_rights_is_told_which(producer: ProducerUnderTest, make_database: Callable[[], Database]) -> None:
    """Refused before there is a slot that holds WAL back, or with a slot that the next start takes."""
    make_table(producer)
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


def test_publication_that_is_missing_empty_dropped_or_renamed_is_refused(producer: ProducerUnderTest) -> None:
    make_table(producer)
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
    words = producer.refusal()
    assert "was dropped" in words
    first, _, then = words.partition("remedy: ")[2].strip().partition("; then ")
    assert then == COPY_ALL
    producer.database.execute(first.replace("...", "t"))
    copy_all_again(producer)
    producer.database.execute("ALTER PUBLICATION walbridge RENAME TO renamed; INSERT INTO t VALUES (3)")
    words = producer.refusal()
    assert "was renamed to renamed: changes since then did not come" in words
    first = words.partition("remedy: ")[2].partition("; then ")[0]
    assert _all_say_what_mends_a_rename(producer) == {first}
    producer.database.execute(first)
    copy_all_again(producer)


def _all_say_what_mends_a_rename(producer: ProducerUnderTest) -> set[str]:
    """First of all, in the words of ``init``, ``copy --all`` and of the start that finds a copy asked for."""
    settings = settings_of(producer)
    settings = settings.model_copy(
        update={"postgres": settings.postgres.model_copy(update={"publication_tables": ()})}
    )  # else a publication of that name is made where all is copied again
    with pytest.raises(StreamLost) as init:
        initialise(settings, None, lambda line: None)
    said = list[str]()
    assert copy_all(settings, wait=False, say=said.append) == 0
    what, _, first = said[2].partition(": ")
    assert what == "publication walbridge does not exist, and no slot is made before it does"
    producer.settings["postgres"] = {}
    start = producer.refusal().partition("remedy: ")[2]
    return {init.value.first, first, start.partition("; then ")[0]}


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
        producer.database = Database(server, "postgres")
        words = producer.refusal()
        assert "wal_level = replica" in words
        statement, _, then = words.partition("remedy: ")[2].strip().partition("; ")
        assert then == "and restart the server"
        producer.database.execute(statement)
        server._settings.pop("wal_level")  # an argument, which would go before what ALTER SYSTEM wrote
        server.stop()
        server.start()
        make_table(producer)
        producer.publish("t")
        producer.start_streaming().stop()


def test_database_whose_text_is_of_no_known_encoding_is_loaded_into_one_of_utf8(
    producer: ProducerUnderTest,
) -> None:
    ours = producer.database
    ascii_name = f"{ours.name}_ascii"
    with ours.connect() as connection:
        of = "ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0"
        connection.execute(f"CREATE DATABASE {ascii_name} {of}".encode())
    old = Database(ours.server, ascii_name)
    try:
        producer.database = old
        make_table(producer)
        producer.publish("t")
        words = producer.refusal()
        assert "encoding is SQL_ASCII" in words
        assert "dump it and load it into a database created with ENCODING 'UTF8'" in words
    finally:
        producer.database = ours
        ours.execute(f"DROP DATABASE {ascii_name} WITH (FORCE)")  # a backend may outlive its client for a moment
    make_table(producer)
    producer.publish("t")
    producer.start_streaming().stop()


def test_slot_without_progress_of_ours_is_refused(producer: ProducerUnderTest) -> None:
    """It may be somebody's; and if it was ours, what it has passed is gone."""
    make_table(producer)
    producer.publish("t")
    producer.database.execute(f"SELECT pg_create_logical_replication_slot('{producer.slot}', 'pgoutput')")
    words = producer.refusal()
    assert f"slot {producer.slot} exists" in words
    assert "walbridge drop --slot-only, then walbridge produce" in words
    assert _slot_count(producer) == 1
    drop_slot_only(producer)
    producer.start_streaming().stop()


def _write_progress(producer: ProducerUnderTest, progress: Progress) -> None:
    writer = Producer({"bootstrap.servers": producer.kafka.bootstrap_servers})
    writer.produce(progress_topic(producer.name), encode_progress(progress), progress.key)
    assert writer.flush(60) == 0


@pytest.mark.parametrize("state", [in_variants("streaming"), "copying"])
def test_progress_of_another_server_or_database_is_refused(producer: ProducerUnderTest, state: str) -> None:
    """Also in mid copy: beginning it again would drop a slot of that name that is not ours."""
    make_table(producer)
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


@pytest.mark.variant(of="test_progress_of_another_server_or_database_is_refused")
def test_slot_of_another_database_is_not_dropped_for_a_copy(
    producer: ProducerUnderTest, make_database: Callable[[], Database]
) -> None:
    make_table(producer)
    producer.publish("t")
    producer.run_until_killed("copy:creating")
    elsewhere = make_database()
    elsewhere.execute(f"SELECT pg_create_logical_replication_slot('{producer.slot}', 'pgoutput')")
    assert f"in database {elsewhere.name}" in producer.refusal()
    assert _slot_count(producer) == 1
