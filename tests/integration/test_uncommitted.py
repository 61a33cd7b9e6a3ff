"""Streamed and prepared transactions through the whole producer: the same events under every option."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fix_postgres import Database, new_database, stop_in_order
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak
from tests.integration.workloads import create_tables, run_workloads
from tests.replay import Event
from tests.wait import wait_until
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.schemas.control.cut import Cut
from walbridge.schemas.settings import Settings
from walbridge.status.json_object import as_json
from walbridge.status.read_status import read_status

PLAIN: dict[str, Any] = {"streaming": "off"}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "streamed": {"streaming": "on"},
    "streamed_and_prepared": {"streaming": "parallel", "two_phase": True},
    "prepared": {"streaming": "off", "two_phase": True},
}
FILTERS = {"public.kept": "n > 10"}
_OF_THE_PIPELINE = {"name", "ts_ms", "ts_us", "ts_ns", "relation_id"}


@pytest.fixture
def make_producer(
    postgres: PostgresServer, kafka: KafkaBroker, pipeline_name: str, tmp_path: Path
) -> Iterator[Callable[[str], ProducerUnderTest]]:
    """Producers of one database, which streams whatever exceeds 64 kB."""
    with new_database(postgres) as database, contextlib.ExitStack() as stack:
        database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")

        def make(name: str) -> ProducerUnderTest:
            folder = tmp_path / name
            folder.mkdir()
            made = ProducerUnderTest(f"{pipeline_name}_{name}", database, kafka, folder)
            made.settings["topics"] = {"source_sequence": True}
            made.settings["producer"] = {"spool_dir": str(folder), "batch_rows_max": 400}
            stack.callback(made.kill_all)
            return made

        yield make


def events(producer: ProducerUnderTest) -> list[tuple[Any, ...]]:
    """All that was streamed, in order; without what is another in each pipeline."""
    with producer.topics() as topics:
        found = [event for cut in topics.cuts() for event in topics.events(cut) if event.position.ordinal >= 0]
    return [_plain(event) for event in sorted(found, key=lambda event: (event.position, event.relation.topic))]


def _plain(event: Event) -> tuple[Any, ...]:
    source = {name: value for name, value in event.source.items() if name not in _OF_THE_PIPELINE}
    source["sequence"] = json.loads(source["sequence"])[1]  # where the change is in the WAL
    table = event.relation.table.qualified_name
    return event.position, table, event.op, event.before, event.after, event.unchanged, event.before_image, source


@pytest.mark.parametrize("options", [("plain", "streamed_and_prepared"), in_soak(tuple(OPTIONS))], ids=", ".join)
def test_options_change_no_event(make_producer: Callable[[str], ProducerUnderTest], options: tuple[str, ...]) -> None:
    """I4: position, operation, rows and source of every event; and all of them add up to the tables."""
    producers = {name: make_producer(name) for name in options}
    database: Database = next(iter(producers.values())).database
    version = database.value("SELECT current_setting('server_version_num')::int")
    create_tables(database, version)
    running = {}
    for name, producer in producers.items():
        producer.settings["postgres"] = {"publication": "pub", **OPTIONS[name]}
        running[name] = producer.start()
    for each in running.values():
        each.wait_for_log("streaming")
    run_workloads(database, version)
    for producer in producers.values():
        producer.check_equal(FILTERS)

    found = {name: events(producer) for name, producer in producers.items()}
    kinds = {name: {kind for kind in KINDS if f"kind={kind}" in each.log} for name, each in running.items()}
    assert [name for name in options if found[name] != found["plain"]] == []
    assert len(found["plain"]) > 3_000
    assert kinds == {name: KINDS_OF[name] for name in options}
    for producer in producers.values():
        assert not [path for path in producer.folder.glob("walbridge-spool-*/*") if path.name != "lock"]


KINDS = ("StreamCommit", "CommitPrepared")
KINDS_OF: dict[str, set[str]] = {
    "plain": set(),
    "streamed": {"StreamCommit"},
    "streamed_and_prepared": {"StreamCommit", "CommitPrepared"},
    "prepared": {"CommitPrepared"},
}


def lsn_of(database: Database) -> int:
    return int(database.value("SELECT pg_current_wal_insert_lsn() - '0/0'"))


def test_prepared_transaction_holds_the_slot_while_cuts_go_on(
    make_producer: Callable[[str], ProducerUnderTest],
) -> None:
    """I1: what is prepared must come again after any death, though what commits after it is published and done."""
    producer = make_producer("held")
    database = producer.database
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    producer.publish("t")
    producer.settings["postgres"] = {"two_phase": True}
    running = producer.start_streaming()
    before = lsn_of(database)
    with database.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (1, 'prepared')")
        connection.execute("PREPARE TRANSACTION ''")
    after = lsn_of(database)
    with database.connect() as connection:  # one that changed nothing: some minors send no prepare of it
        for statement in ("BEGIN", "SELECT FROM t FOR UPDATE", "PREPARE TRANSACTION 'n'", "COMMIT PREPARED 'n'"):
            connection.execute(statement.encode())
    database.execute("INSERT INTO t VALUES (2, 'after')")
    with producer.topics() as topics:
        cut = producer.caught_up(topics)
        assert cut.end_lsn > after
        assert _rows(topics.cuts()) == 1
        # Readers see a cut before the server hears of it.
        wait_until(lambda: before <= producer.confirmed_lsn(), "what was before it to be confirmed")
        assert producer.confirmed_lsn() < after
    shown = prepared_shown(producer)
    assert (shown["count"], shown["oldest_gid"]) == (1, "")
    assert shown["held_bytes"] > 0
    running.kill()
    database.execute("INSERT INTO t VALUES (3, 'while it was down')")
    database.execute("COMMIT PREPARED ''")
    producer.start_streaming()
    producer.check_equal()
    with producer.topics() as topics:
        end = producer.caught_up(topics)
        assert after < end.end_lsn
    # Readers see a cut before the server hears of it.
    wait_until(lambda: after < producer.confirmed_lsn(), "the slot to be let go")
    assert prepared_shown(producer) is None


def prepared_shown(producer: ProducerUnderTest) -> Any:
    """What ``walbridge status`` tells."""
    where = {"postgres": {"dsn": producer.database.dsn, "slot": producer.slot}, "name": producer.name}
    kafka = {"kafka": {"bootstrap_servers": producer.kafka.bootstrap_servers}}
    return as_json(read_status(Settings.model_validate(where | kafka)))["slot"]["prepared"]


def _rows(cuts: list[Cut]) -> int:
    """Of the stream."""
    return sum(table.row_count for cut in cuts if cut.commit_lsn is not None for table in cut.tables)


@pytest.mark.variant(of="test_options_change_no_event")
def test_table_altered_in_a_prepared_transaction_has_its_new_shape_if_that_is_committed(
    make_producer: Callable[[str], ProducerUnderTest],
) -> None:
    """I2: what it announces is known to the session at once, but counts for nothing once it is rolled back."""
    producer = make_producer("altered")
    database = producer.database
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY)")
    producer.publish("t", "u")
    producer.settings["postgres"] = {"two_phase": True}
    running = producer.start_streaming()
    database.execute("INSERT INTO t VALUES (1, 'before')")
    for end, change in (
        ("ROLLBACK", "ALTER TABLE t RENAME TO other; INSERT INTO other VALUES (2, 'renamed')"),
        ("ROLLBACK", "ALTER TABLE t DROP COLUMN v; INSERT INTO t VALUES (3)"),
        (
            "COMMIT",
            "ALTER TABLE t ADD COLUMN extra int; INSERT INTO t VALUES (4, 'added', 4); INSERT INTO u VALUES (4)",
        ),
    ):
        with database.connect() as connection:
            for statement in ("BEGIN", *change.split("; "), "PREPARE TRANSACTION 'ddl'"):
                connection.execute(statement.encode())
        database.execute("INSERT INTO u SELECT 10 * count(*) + 100 FROM u")
        database.execute(f"{end} PREPARED 'ddl'")
        database.execute("INSERT INTO t SELECT max(id) + 10 FROM t")
    producer.check_equal()
    assert running.process.poll() is None


def test_server_that_stops_does_not_wait_for_an_unresolved_prepare(
    make_producer: Callable[[str], ProducerUnderTest],
) -> None:
    """It waits for the slot to be read up to its end, which a prepared transaction holds back for ever."""
    producer = make_producer("stopped")
    database = producer.database
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    producer.settings["postgres"] = {"two_phase": True}
    producer.start_streaming()
    with database.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("PREPARE TRANSACTION 'open'")
    database.execute("INSERT INTO t VALUES (2)")
    with producer.topics() as topics:
        producer.caught_up(topics)
    stop_in_order(database.server)  # the catalogue's session ends first, and the producer leaves
    database.server.start()
    database.execute("ROLLBACK PREPARED 'open'")
    producer.check_equal()


@pytest.mark.parametrize(
    ("made_with", "started_with", "words"),
    [
        (False, True, "was made without two_phase, but [postgres] two_phase is true"),
        (True, False, "was made with two_phase, but [postgres] two_phase is false"),
    ],
)
def test_slot_made_otherwise_than_two_phase_says_is_refused(
    make_producer: Callable[[str], ProducerUnderTest], made_with: bool, started_with: bool, words: str
) -> None:
    producer = make_producer("other")
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("t")
    producer.settings["postgres"] = {"two_phase": made_with}
    producer.start_streaming().stop()
    producer.settings["postgres"] = {"two_phase": started_with}

    assert words in producer.refusal()
    made = producer.database.value("SELECT two_phase FROM pg_replication_slots WHERE slot_name = %s", (producer.slot,))
    assert made is made_with  # asking for it would have set it
