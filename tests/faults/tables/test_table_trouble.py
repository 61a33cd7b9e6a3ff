"""What goes wrong with one table is its own: it is copied again beside the stream, the others flow (I7, I8)."""

from __future__ import annotations

import re

import pytest

from tests.faults.followed import settings_of
from tests.fix_producer import ProducerUnderTest
from tests.in_soak import in_soak
from tests.wait import wait_until
from walbridge.check.finding import Finding, Severity
from walbridge.check.verb import all_findings
from walbridge.producer.copying.troubles import AGAIN_MAX
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.control.table_progress import TableProgress
from walbridge.tables.copy import copy

pytestmark = pytest.mark.fault

BACK = "ALTER PUBLICATION walbridge DROP TABLE u; {between}; ALTER PUBLICATION walbridge ADD TABLE u"


@pytest.fixture
def following(producer: ProducerUnderTest) -> ProducerUnderTest:
    """A pipeline that follows ``t`` and ``u``."""
    producer.database.execute(
        "CREATE TABLE t (id serial PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY, v text);"
        "INSERT INTO t (v) VALUES (0); INSERT INTO u SELECT i, 'v' || i FROM generate_series(1, 20) i"
    )
    producer.publish("t", "u")
    return producer


def progress_of(producer: ProducerUnderTest) -> Progress:
    """Once everything committed until now is in the topics."""
    with producer.topics() as topics:
        producer.caught_up(topics)
        progress = topics.progress()
    assert progress is not None
    return progress


def table(producer: ProducerUnderTest, name: str) -> TableProgress:
    return progress_of(producer).tables[producer.database.value("SELECT %s::regclass::oid::int", (name,))]


def barriers_of(producer: ProducerUnderTest, name: str) -> list[str]:
    """Kinds of barriers since the first copy, but for shapes, which a new session has too."""
    own = re.compile(rf".*\.{name}(_\d+)?")  # the table may have got another topic
    with producer.topics() as topics:
        kinds = [b.kind for c in topics.cuts() for t in c.tables for b in t.barriers if own.fullmatch(t.topic)]
    return [kind for kind in kinds if kind != "shape"][2:]


@pytest.mark.variant(of="test_table_that_left_is_said_to_be_stale_and_the_others_go_on")
@pytest.mark.parametrize("while_running", [in_soak(True), False])
def test_table_that_was_out_of_the_publication_is_copied_again_and_the_others_flow(
    following: ProducerUnderTest, while_running: bool
) -> None:
    """What happened meanwhile was never sent."""
    execute = following.database.execute
    running = following.start_streaming()
    execute("INSERT INTO u VALUES (100, 'before')")
    following.check_equal()
    if not while_running:
        running.stop()
    execute(BACK.format(between="DELETE FROM u WHERE id < 5; UPDATE u SET v = 'changed' WHERE id < 10"))
    execute("INSERT INTO u VALUES (101, 'after'); INSERT INTO t (v) VALUES (1)")
    if not while_running:
        running = following.start_streaming()
    running.wait_for_log("table is copied")
    execute("INSERT INTO u VALUES (102, 'copied'); INSERT INTO t (v) VALUES (2)")
    following.check_equal()
    assert table(following, "u").state == "current"
    assert barriers_of(following, "u") == ["dropped", "copy_begin", "copy_end"]
    assert barriers_of(following, "t") == []


@pytest.mark.variant(of="test_tables_come_go_and_come_back_under_load_and_a_filter_changes")
def test_table_whose_row_filter_is_changed_is_copied_again_as_soon_as_it_can_be(following: ProducerUnderTest) -> None:
    """What speaks against the copy is said with its remedy, and the others flow."""
    execute = following.database.execute
    running = following.start_streaming()
    execute("ALTER PUBLICATION walbridge SET TABLE t, u WHERE (id > 10); INSERT INTO u VALUES (5000, 'in it')")
    running.wait_for_log("table is not published")
    execute("INSERT INTO t (v) VALUES (1)")
    assert "has a row filter and a replica identity that is not FULL" in str(table(following, "u").why)
    assert "ALTER TABLE public.u REPLICA IDENTITY FULL" in running.log
    said: list[str] = []
    assert copy(settings_of(following), ["u"], wait=True, say=said.append) == 2
    assert said[-1].startswith("public.u: not copied: it is stale: ")
    assert "has a row filter and a replica identity that is not FULL" in said[-1]
    execute("ALTER TABLE public.u REPLICA IDENTITY FULL")
    running.wait_for_log("table is copied")
    execute("INSERT INTO u VALUES (-1, 'out of it'), (6000, 'in it'); DELETE FROM u WHERE id = 5")
    following.check_equal({"public.u": "id > 10"})


@pytest.mark.variant(of="test_table_that_is_rewritten_is_copied_again_and_one_whose_values_stay_is_not")
def test_table_that_is_in_trouble_is_not_current_until_it_is_copied(following: ProducerUnderTest) -> None:
    """I8: also after a restart, which goes on where it was."""
    execute = following.database.execute
    following.start_streaming().stop()
    execute(BACK.format(between="DELETE FROM u WHERE id < 5"))
    following.run_until_killed("chunk:before-begin")
    with following.topics() as topics:
        progress = topics.progress()
    assert progress is not None
    stale = progress.tables[following.database.value("SELECT 'u'::regclass::oid::int")]
    assert (stale.state, stale.name) == ("stale", "public.u")
    assert "was taken out of publication walbridge and put back" in str(stale.why)
    following.start_streaming().wait_for_log("table is copied")
    following.check_equal()


def test_table_that_was_copied_again_too_often_is_quarantined_and_the_others_flow(
    following: ProducerUnderTest,
) -> None:
    execute = following.database.execute
    running = following.start_streaming()
    for number in range(1, AGAIN_MAX + 2):
        execute(BACK.format(between="DELETE FROM u WHERE id = 1"))
        execute("INSERT INTO u VALUES (1, 'again')")
        if number <= AGAIN_MAX:
            wait_until(lambda number=number: running.log.count("table is copied") == number, "the copy")  # type: ignore[misc]
    running.wait_for_log("table is quarantined")
    execute("INSERT INTO t (v) VALUES (1); INSERT INTO u VALUES (1000, 'left out')")
    left_out = table(following, "u")
    assert left_out.state == "quarantined"
    assert "was taken out" in str(left_out.why)
    running.stop()
    following.start_streaming()
    execute("INSERT INTO t (v) VALUES (2); INSERT INTO u VALUES (1001, 'left out')")
    assert table(following, "u").state == "quarantined"
    with following.topics() as topics:
        assert 2 in [row["v"] for row in topics.replay().rows("public", "t")]


def test_table_in_trouble_is_quarantined_at_once_where_settings_say_so(following: ProducerUnderTest) -> None:
    following.settings["producer"] = {"on_table_error": "quarantine"}
    running = following.start_streaming()
    following.database.execute(BACK.format(between="DELETE FROM u WHERE id = 1"))
    running.wait_for_log("table is quarantined")
    assert table(following, "u").state == "quarantined"

    def said() -> list[Finding]:
        return [each for each in all_findings(settings_of(following)) if "table public.u is quarantined" in each.text]

    (found,) = said()
    assert (found.severity, found.remedy) == (Severity.WARNING, "walbridge copy public.u")
    assert copy(settings_of(following), ["public.u"], wait=True, say=print) == 0
    assert said() == []


REWRITES = {
    "values, and not their type": "ALTER TABLE {} ALTER n TYPE int USING n * 100",
    "type": "ALTER TABLE {} ALTER n TYPE bigint USING n + 1",
    "a volatile default": "ALTER TABLE {} ADD COLUMN r float DEFAULT random()",
    "persistence": "ALTER TABLE {0} SET UNLOGGED; UPDATE {0} SET n = -1; ALTER TABLE {0} SET LOGGED",
    "persistence behind a TRUNCATE": "TRUNCATE {0}; ALTER TABLE {0} SET UNLOGGED; INSERT INTO {0} VALUES (2, 2); "
    "ALTER TABLE {0} SET LOGGED",
}
HARMLESS = {
    "vacuum": "VACUUM FULL {}",
    "cluster": "CLUSTER {0} USING {0}_pkey",
    "column": "ALTER TABLE {} ADD COLUMN e int",
    "a constant default": "ALTER TABLE {} ADD COLUMN d int DEFAULT 5",
    "a default that is dropped": "ALTER TABLE {0} ADD d int DEFAULT 5; ALTER TABLE {0} ALTER d DROP DEFAULT",
    "truncate": "TRUNCATE {}",
}


@pytest.fixture
def rewritable(producer: ProducerUnderTest) -> ProducerUnderTest:
    """All tables are followed: of each kind of change one with values that may lie out of line, and one without."""
    execute = producer.database.execute
    execute("CREATE TABLE t (id serial PRIMARY KEY, v int)")
    for number in range(len(REWRITES | HARMLESS)):
        execute(f"CREATE TABLE short{number} (id int PRIMARY KEY, n int)")
        execute(f"CREATE TABLE long{number} (id int PRIMARY KEY, n int, v text)")
        for name in (f"short{number}", f"long{number}"):
            execute(f"INSERT INTO {name} SELECT i, i FROM generate_series(1, 9) i")
    execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    return producer


@pytest.mark.parametrize("how", [in_soak("running"), in_soak("stopped"), "changed at once"])
def test_table_that_is_rewritten_is_copied_again_and_one_whose_values_stay_is_not(
    rewritable: ProducerUnderTest, how: str
) -> None:
    """No change is sent of the rows that were there. Short columns and a new file tell too little after VACUUM FULL."""
    execute = rewritable.database.execute
    running = rewritable.start_streaming()
    rewritable.check_equal()
    if how == "stopped":
        running.stop()
    for number, statement in enumerate((REWRITES | HARMLESS).values()):
        for name in (f"short{number}", f"long{number}"):
            for each in statement.format(name).split(";"):
                execute(each)
            if how == "changed at once":
                execute(f"INSERT INTO {name} (id, n) VALUES (100, 100)")
    if how == "stopped":
        running = rewritable.start_streaming()
    wait_until(lambda: running.log.count("table is copied") >= 2 * len(REWRITES), "the copies")
    for number in range(len(REWRITES | HARMLESS)):
        execute(f"INSERT INTO short{number} VALUES (1000, 1); INSERT INTO long{number} VALUES (1000, 1)")
    execute("INSERT INTO t (v) VALUES (1)")
    wait_until(lambda: states(rewritable) == {"current"}, "all to be current")
    rewritable.check_equal()
    copied = {
        name: "copy_begin" in barriers_of(rewritable, name)
        for name in (f"{kind}{number}" for kind in ("long", "short") for number in range(len(REWRITES | HARMLESS)))
    }
    # A look may come before the stream tells of a TRUNCATE.
    unclear = {"vacuum", "cluster", "truncate"}
    in_doubt = {f"short{number}" for number, each in enumerate(REWRITES | HARMLESS) if each in unclear}
    wanted = {f"{kind}{number}" for kind in ("long", "short") for number in range(len(REWRITES))}
    assert {name for name, is_copied in copied.items() if is_copied} - in_doubt == wanted


def states(producer: ProducerUnderTest) -> set[str]:
    return {each.state for each in progress_of(producer).tables.values()}


@pytest.mark.variant(of="test_root_is_copied_again_when_rows_came_or_went_with_partitions")
def test_root_whose_partition_is_emptied_is_copied_again(producer: ProducerUnderTest) -> None:
    """TRUNCATE of a partition does not come where its root is published."""
    execute = producer.database.execute
    execute("CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")
    execute("CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)")
    execute("INSERT INTO p VALUES (1, 'a'), (11, 'b')")
    producer.publish("p", options="WITH (publish_via_partition_root = true)")
    running = producer.start_streaming()
    execute("TRUNCATE p1; INSERT INTO p VALUES (2, 'c')")
    running.wait_for_log("table is copied")
    producer.check_equal()
