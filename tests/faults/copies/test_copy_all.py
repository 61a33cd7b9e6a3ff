"""``walbridge copy --all``: the stream is lost, and topics and tables go on in a new epoch (I1, I4, I7, I8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.copies.test_table_copied import MADE, Habits
from tests.faults.followed import copy_all_again, settings_of, states_by_name, wait_until_current
from tests.faults.kill_points import AGAIN, AGAIN_DONE, BESIDE
from tests.faults.refusals.test_guards_server import SETTINGS, copy_cluster, replace_cluster
from tests.faults.standing import refused_and_untouched
from tests.faults.topic_life import TopicLife
from tests.fix_postgres import Database
from tests.fix_producer import ProducerUnderTest, refusal_of
from tests.in_soak import in_soak, others_in_soak
from tests.wait import wait_until
from walbridge.check.verb import all_findings
from walbridge.embedded.kafka import KafkaBroker
from walbridge.embedded.postgres import PostgresServer
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.errors import COPY_ALL
from walbridge.tables.copy_all import copy_all
from walbridge.tables.read_tables import read_tables

pytestmark = pytest.mark.fault


@pytest.fixture
def stopped(producer: ProducerUnderTest) -> ProducerUnderTest:
    """It follows ``t``, ``u`` and ``bag``, which has no key, with small chunks; all is published, and it is stopped."""
    producer.database.execute("CREATE TABLE t (id serial PRIMARY KEY, v int); INSERT INTO t (v) VALUES (0)")
    producer.database.execute("CREATE TABLE bag (v int); ALTER TABLE bag REPLICA IDENTITY FULL")
    producer.database.execute(MADE.format(rows=2000) + "; INSERT INTO bag SELECT generate_series(1, 100)")
    producer.database.execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    producer.settings["producer"] = {"batch_rows_max": 150}
    running = producer.start_streaming()
    producer.check_equal()
    running.stop()
    producer.slot_at_rest()
    return producer


def progress_of(producer: ProducerUnderTest) -> Progress:
    with producer.topics() as topics:
        progress = topics.progress()
    assert progress is not None
    return progress


def drop_slot(producer: ProducerUnderTest) -> None:
    producer.slot_at_rest()
    producer.database.execute(f"SELECT pg_drop_replication_slot('{producer.slot}')")


def advance_slot(producer: ProducerUnderTest) -> None:
    producer.slot_at_rest()
    producer.database.execute(f"SELECT pg_replication_slot_advance('{producer.slot}', pg_current_wal_lsn())")


# What was lost is told apart by the guards alone; all that is done afterwards is the same.
LOSSES: dict[str, tuple[Callable[[ProducerUnderTest], None], str, tuple[str, ...]]] = {
    "slot that is gone": (drop_slot, "and with it the changes after", (*AGAIN, AGAIN_DONE, BESIDE[4])),
    "slot that is gone, every death": (drop_slot, "and with it the changes after", (*AGAIN, AGAIN_DONE, *BESIDE)),
    "slot that was moved on": (advance_slot, "a gap", (AGAIN_DONE,)),
}


@pytest.mark.parametrize("loss", others_in_soak(LOSSES, [next(iter(LOSSES))]))
def test_stream_that_is_lost_under_load_goes_on_in_a_new_epoch_through_kills(
    stopped: ProducerUnderTest, loss: str
) -> None:
    """What was changed in between was never sent: only a copy has it."""
    lose, what, points = LOSSES[loss]
    before = progress_of(stopped)
    with Habits(stopped, 2000) as habits:
        habits.wait_for(20)
        lose(stopped)
        habits.wait_for(20)
        refused_and_untouched(stopped, what, COPY_ALL)
        assert copy_all(settings_of(stopped), wait=False, say=lambda line: None) == 0
        for point in points:
            habits.wait_for(3)
            stopped.run_until_killed(point)
        running = stopped.start_streaming()
        wait_until_current(stopped)
        habits.wait_for(20)
    stopped.check_equal()
    running.stop()
    after = progress_of(stopped)
    assert before.tables.keys() == after.tables.keys()
    assert {table.topic for table in before.tables.values()} == {table.topic for table in after.tables.values()}
    with stopped.topics() as topics:
        cuts = topics.cuts()
    assert len({cut.epoch for cut in cuts}) == 2, "a kill before its first cut leaves no epoch behind"
    (first,) = [cut for cut in cuts if cut.epoch == after.epoch and cut.cut_id == 1]
    assert {barrier.kind for table in first.tables for barrier in table.barriers} == {"dropped"}
    assert len(first.tables) == 3
    assert {cut.complete for cut in cuts if cut.epoch == after.epoch} == {True}


def test_every_table_is_told_stale_with_the_reason_until_it_is_copied(stopped: ProducerUnderTest) -> None:
    """I8: ``tables`` and ``check`` say so; the request is taken once."""
    drop_slot(stopped)
    stopped.database.execute("DELETE FROM u WHERE id < 10")
    settings, said = settings_of(stopped), list[str]()
    assert copy_all(settings, wait=False, say=said.append) == 0
    assert said[0] == "all 3 tables: asked to be copied again, one after the other"
    assert said[1].startswith(f"the stream cannot go on: slot {stopped.slot} is gone, and with it the changes after")
    found = {finding.text: finding for finding in all_findings(settings)}
    (asked,) = [text for text in found if "a copy of all tables was asked for" in text]
    assert found[asked].remedy == "walbridge produce"

    stopped.run_until_killed(AGAIN_DONE)

    tables = read_tables(settings, needs_postgres=True).tables
    standing = {table.name: table.progress for table in tables}
    assert {each and each.state for each in standing.values()} == {"stale"}
    assert {each and each.why for each in standing.values()} == {said[1].removeprefix("the stream cannot go on: ")}
    running = stopped.start_streaming()
    wait_until_current(stopped)
    running.stop()
    epoch = progress_of(stopped).epoch
    drop_slot(stopped)
    refused_and_untouched(stopped, "and with it the changes after", COPY_ALL)
    assert progress_of(stopped).epoch == epoch


@pytest.mark.variant(of="test_stream_that_is_lost_under_load_goes_on_in_a_new_epoch_through_kills")
def test_tables_that_vanished_meanwhile_are_dropped_and_new_ones_are_copied(stopped: ProducerUnderTest) -> None:
    """And a topic that was made again meanwhile is left: cuts name offsets of the one before."""
    drop_slot(stopped)
    TopicLife(stopped).remake(f"{stopped.name}.public.t")
    stopped.database.execute(
        "DROP TABLE bag; ALTER TABLE u RENAME TO renamed; CREATE TABLE u (id int PRIMARY KEY);"
        "INSERT INTO u VALUES (7); ALTER TABLE t ADD COLUMN added int DEFAULT 5"
    )
    assert copy_all(settings_of(stopped), wait=False, say=lambda line: None) == 0
    running = stopped.start_streaming()
    wanted = {"public.bag": "dropped", "public.t": "current", "public.renamed": "current", "public.u": "current"}
    wait_until(lambda: states_by_name(settings_of(stopped)) == wanted, "the tables to be copied", 60)
    stopped.database.execute("INSERT INTO u VALUES (8)")
    with stopped.topics() as topics:
        stopped.caught_up(topics)
        replayed = topics.replay()
    assert sorted(row["id"] for row in replayed.rows("public", "u")) == [7, 8]
    assert {row["added"] for row in replayed.rows("public", "t")} == {5}
    running.stop()
    assert f"{stopped.name}.public.t_2" in {table.topic for table in progress_of(stopped).tables.values()}


@pytest.mark.variant(of="test_every_table_is_told_stale_with_the_reason_until_it_is_copied")
def test_pipeline_that_can_go_on_copies_all_tables_beside_the_stream(stopped: ProducerUnderTest) -> None:
    """Neither slot nor epoch changes, and no table is stale meanwhile that has a key."""
    before = progress_of(stopped)
    said = list[str]()
    running = stopped.start_streaming()
    with Habits(stopped, 2000) as habits:
        assert copy_all(settings_of(stopped), wait=True, say=said.append, line_s=0.5) == 0
        habits.wait_for(20)
    assert {f"public.{name}: copied, and current" for name in ("t", "u", "bag")} <= set(said)
    stopped.check_equal()
    running.stop()
    assert progress_of(stopped).epoch == before.epoch
    with stopped.topics() as topics:
        kinds = [
            b.kind for cut in topics.cuts() for t in cut.tables for b in t.barriers if not t.topic.endswith(".bag")
        ]
    assert "dropped" not in kinds


@pytest.mark.variant(of="test_every_table_is_told_stale_with_the_reason_until_it_is_copied")
def test_publication_that_was_made_again_while_the_producer_was_stopped_is_told_by_the_command(
    stopped: ProducerUnderTest,
) -> None:
    """I7: before any start has found it; the words and the next start rest on one comparison."""
    said = list[str]()
    stopped.database.execute("DROP PUBLICATION walbridge; DELETE FROM u WHERE id < 10")
    assert copy_all(settings_of(stopped), wait=False, say=said.append) == 0
    assert said[1].startswith(
        "the stream cannot go on: publication walbridge, which this pipeline follows, was dropped"
    )
    before, _, first = said[2].partition(": ")
    assert before == "publication walbridge does not exist, and no slot is made before it does"
    assert first in stopped.refusal()
    stopped.database.execute(first.partition("; or ")[0].replace("TABLE ...", "ALL TABLES"))
    copy_all_again(stopped)

    stopped.database.execute("DROP PUBLICATION walbridge; CREATE PUBLICATION walbridge FOR ALL TABLES")
    assert str(copy_all_again(stopped)).startswith("publication walbridge was dropped and made again, or its name ")


UNDECODABLE = {
    "filter that fails on a row": (
        "CREATE PUBLICATION a FOR TABLE t WHERE (100 / v > 0), u",
        "INSERT INTO t VALUES (2, 0)",
        "Postgres refused (22012): DivisionByZero",
        "mend the filter or the row",
        "ALTER PUBLICATION a SET TABLE t WHERE (v > 0), u",
    ),
    "columns that differ between publications": (
        "CREATE PUBLICATION a FOR TABLE t, u; CREATE PUBLICATION b FOR TABLE t (id, v)",
        "ALTER TABLE t ADD COLUMN w int; INSERT INTO t VALUES (2, 5, 5)",
        "in different publications",
        "have those publications publish the same columns of the table",
        "ALTER PUBLICATION b SET TABLE t (id, v, w)",
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", UNDECODABLE)
def test_change_that_postgres_cannot_decode_is_left_behind_by_a_copy_of_all_tables(
    producer: ProducerUnderTest, name: str
) -> None:
    """I7: each session ends there, and none may take the request for its own before it does."""
    published, change, what, first, mend = UNDECODABLE[name]
    execute = producer.database.execute
    execute("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY)")
    execute("ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t VALUES (1, 5)")
    execute(published)
    names = [name for (name,) in producer.database.rows("SELECT pubname::text FROM pg_publication ORDER BY 1")]
    producer.settings["postgres"] = {"publications": names}
    running = producer.start_streaming()
    execute(change)
    assert what in refusal_of(running)
    said = producer.refusal()
    assert what in said
    assert f"{first}; then {COPY_ALL}" in said

    assert COPY_ALL in {each.remedy for each in all_findings(settings_of(producer)) if what in each.text}

    execute(mend)
    told = list[str]()
    assert copy_all(settings_of(producer), wait=False, say=told.append) == 0
    assert what in told[1]
    running = producer.start_streaming()
    wait_until_current(producer)
    execute("INSERT INTO u VALUES (1); INSERT INTO t (id, v) VALUES (3, 7)")
    producer.check_equal(filters={"public.t": "v > 0"})
    running.stop()
    assert "cannot be decoded" in running.log.split("a new epoch begins", 1)[1].splitlines()[0]


TOO_LARGE = {
    "two texts": ("text", "repeat('a', 600000000)", "54000", False),
    "two texts, binary": ("text", "repeat('a', 600000000)", "54000", True),
    "bytea": (
        "bytea",
        "decode(repeat('00', 300000000), 'hex') || decode(repeat('00', 300000000), 'hex')",
        "XX000",
        False,
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize("case", TOO_LARGE.values(), ids=TOO_LARGE)
def test_row_that_postgres_can_store_but_not_send_is_told_in_the_stream_and_in_copies(
    producer: ProducerUnderTest, case: tuple[str, str, str, bool]
) -> None:
    """I7: no session and no copy passes it, so waiting would hold WAL back for ever."""
    kind, value, sqlstate, binary = case
    execute = producer.database.execute
    execute(f"CREATE TABLE t (id int PRIMARY KEY, v {kind}, w {kind}); CREATE TABLE u (id int PRIMARY KEY)")
    execute(f"CREATE TABLE apart (LIKE t); INSERT INTO apart VALUES (1, {value}); UPDATE apart SET w = v")
    producer.publish("t", "u")
    producer.settings["postgres"] = {"binary": binary}
    running = producer.start_streaming()
    execute("INSERT INTO t SELECT * FROM apart")
    assert f"cannot be decoded: Postgres refused ({sqlstate})" in refusal_of(running, 300)
    assert "take that row out of its table" in producer.refusal(timeout_s=300)

    assert copy_all(settings_of(producer), wait=False, say=lambda line: None) == 0
    running = producer.start_streaming()
    running.wait_for_log(f"Postgres refused ({sqlstate})", 300)
    execute("DELETE FROM t; INSERT INTO u VALUES (1)")
    assert copy_all(settings_of(producer), wait=False, say=lambda line: None) == 0
    wait_until_current(producer)
    producer.check_equal()
    running.stop()


@pytest.fixture
def own(kafka: KafkaBroker, pipeline_name: str, tmp_path: Path) -> Iterator[ProducerUnderTest]:
    """A producer with a server of its own: it follows ``t``, and is stopped with everything published."""
    with PostgresServer(SETTINGS) as server:
        producer = ProducerUnderTest(pipeline_name, Database(server, "postgres"), kafka, tmp_path)
        producer.database.execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (0, 'old')")
        producer.publish("t")
        try:
            stream(producer, "INSERT INTO t VALUES (1, 'old')")
            yield producer
        finally:
            producer.kill_all()


def stream(producer: ProducerUnderTest, change: str) -> None:
    running = producer.start_streaming()
    producer.database.execute(change)
    producer.check_equal()
    running.stop()


def test_server_that_was_restored_and_has_outgrown_what_was_published_is_refused_and_followed_anew(
    own: ProducerUnderTest,
) -> None:
    """I7: system id, timeline and slot fit, and no LSN tells."""
    server, execute = own.database.server, own.database.execute
    backup = server.data.with_name("backup")
    copy_cluster(server, backup)
    stream(own, "INSERT INTO t VALUES (2, 'of the first life')")
    replace_cluster(server, backup)
    server.start()
    execute("INSERT INTO t SELECT i, repeat('y', 2000) FROM generate_series(3, 1000) i")
    confirmed = own.confirmed_lsn()

    refusal = refusal_of(own.start())

    assert "that was published last is not in the server's WAL" in refusal
    assert COPY_ALL in refusal
    assert own.confirmed_lsn() == confirmed
    assert "that was published last is not in" in (copy_all_again(own) or "")


def cut_short(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes()[: 2**20])


def fill_with_zeros(segment: Path) -> None:
    segment.write_bytes(bytes(segment.stat().st_size))


WAL_LOSSES: dict[str, Callable[[Path], None]] = {
    "removed": Path.unlink,
    "cut short": cut_short,
    "zeroed": fill_with_zeros,
}


@pytest.mark.parametrize("how", others_in_soak(WAL_LOSSES, ["removed"]))
def test_wal_that_somebody_removed_or_damaged_under_the_slot_is_left_behind_by_a_copy_of_all_tables(
    own: ProducerUnderTest, how: str
) -> None:
    """I7: the slot says nothing of it, and each session ends there."""
    server, execute = own.database.server, own.database.execute
    for value in ("b", "c", "d"):
        execute(
            f"INSERT INTO t SELECT i, repeat('{value}', 2000) FROM generate_series(2, 800) i ON CONFLICT DO NOTHING"
        )
        execute(f"UPDATE t SET v = '{value}'")
        execute("SELECT pg_switch_wal()")
    execute("CHECKPOINT")
    name = own.database.value(
        "SELECT pg_walfile_name(confirmed_flush_lsn) FROM pg_replication_slots WHERE slot_name = %s", (own.slot,)
    )
    server.stop()
    WAL_LOSSES[how](server.data / "pg_wal" / name)
    server.start()

    assert COPY_ALL in refusal_of(own.start())
    assert "WAL" in own.refusal()
    lost = copy_all_again(own)

    assert lost is not None
    assert "WAL" in lost


@pytest.mark.parametrize("rows", [in_soak(5), 3000], ids=["below", "outgrown"])
def test_older_backup_is_followed_in_a_new_epoch_whatever_its_lsns_are(own: ProducerUnderTest, rows: int) -> None:
    """I8: killed with its slot made, the start asks no guard: once the WAL has outgrown what was published, slot and
    old progress seem to fit."""
    server, execute = own.database.server, own.database.execute
    backup = server.data.with_name("backup")
    copy_cluster(server, backup)
    stream(own, "INSERT INTO t SELECT i, repeat('x', 2000) FROM generate_series(2, 1000) i; DELETE FROM t WHERE id = 0")
    published = progress_of(own).done
    replace_cluster(server, backup)
    server.start()
    refused_and_untouched(own, "but the server's WAL ends at", COPY_ALL)
    assert copy_all(settings_of(own), wait=False, say=lambda line: None) == 0
    own.run_until_killed("again:slot-created")
    assert progress_of(own).state == "creating"
    execute(f"INSERT INTO t SELECT i, repeat('y', 2000) FROM generate_series(2, {rows}) i; DELETE FROM t WHERE id = 1")

    running = own.start_streaming()
    wait_until_current(own)
    execute("UPDATE t SET v = 'z' WHERE id = 2")
    epoch = progress_of(own).epoch
    assert (epoch.consistent_point > published) == (rows > 1000)
    with own.topics() as topics:
        topics.wait_for_cut(lambda cut: cut.epoch == epoch and cut.commit_lsn is not None, "that holds the update")
        running.stop()
        replayed = topics.replay()
        topics.check_nothing_else()
    found = {row["id"]: str(row["v"])[0] for row in replayed.rows("public", "t")}
    assert found == {0: "o", 2: "z"} | dict.fromkeys(range(3, rows + 1), "y")
