"""Rows that come, go or read otherwise without a word in the stream have their table copied again, others not (I8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pytest

from tests.faults.followed import settings_of, states_by_name
from tests.faults.tables.test_table_trouble import barriers_of, states
from tests.fix_producer import ProducerUnderTest, Running
from tests.in_soak import in_soak
from tests.postgres_versions import MAJORS
from tests.source_rows import comparable, source_rows
from tests.wait import wait_until
from walbridge.tables.forget import forget

pytestmark = pytest.mark.fault

ROOT = """
    CREATE TABLE {0} (id int PRIMARY KEY, n int NOT NULL DEFAULT 7, v text) PARTITION BY RANGE (id);
    CREATE TABLE {0}_a PARTITION OF {0} FOR VALUES FROM (0) TO (10);
    CREATE TABLE {0}_b PARTITION OF {0} FOR VALUES FROM (10) TO (20);
    CREATE TABLE {0}_z PARTITION OF {0} FOR VALUES FROM (90) TO (99);
    INSERT INTO {0} SELECT i, i, 'v' || i FROM generate_series(0, 19) i
"""
BOUND = "FOR VALUES FROM (20) TO (30)"
FILLED = "CREATE TABLE {0}_c (LIKE {0} INCLUDING ALL); INSERT INTO {0}_c VALUES (20, 1, 'before')"
MOVED = {
    "attached": f"{FILLED}; ALTER TABLE {{0}} ATTACH PARTITION {{0}}_c {BOUND}",
    "attached where it was made": f"BEGIN; {FILLED}; ALTER TABLE {{0}} ATTACH PARTITION {{0}}_c {BOUND}; COMMIT",
    "attached with partitions": "CREATE TABLE {0}_c (LIKE {0} INCLUDING ALL) PARTITION BY RANGE (id);"
    "CREATE TABLE {0}_d PARTITION OF {0}_c DEFAULT; INSERT INTO {0}_c VALUES (20, 1, 'before');"
    f"ALTER TABLE {{0}} ATTACH PARTITION {{0}}_c {BOUND}",
    "detached": "ALTER TABLE {0} DETACH PARTITION {0}_a",
    "dropped": "DROP TABLE {0}_a",
    "detached for a while": "ALTER TABLE {0} DETACH PARTITION {0}_a; DELETE FROM {0}_a WHERE id < 5;"
    "ALTER TABLE {0} ATTACH PARTITION {0}_a FOR VALUES FROM (0) TO (10)",
    "made and dropped": f"CREATE TABLE {{0}}_c PARTITION OF {{0}} {BOUND}; INSERT INTO {{0}} VALUES (20, 1, 'short');"
    "DROP TABLE {0}_c",
    "root emptied and filled": "BEGIN; TRUNCATE {0}; INSERT INTO {0} VALUES (1, 1, 'a'); TRUNCATE {0}_a; COMMIT",
    "made and emptied": f"CREATE TABLE {{0}}_c PARTITION OF {{0}} {BOUND}; INSERT INTO {{0}} VALUES (20, 1, 'short');"
    "TRUNCATE {0}_c",
}
MOVED |= {
    "empty, filled and dropped": "INSERT INTO {0} VALUES (90, 1, 'short'); DROP TABLE {0}_z",
    "empty, filled and emptied": "INSERT INTO {0} VALUES (90, 1, 'short'); TRUNCATE {0}_z",
    "emptied and filled": "TRUNCATE {0}_z; INSERT INTO {0} VALUES (90, 1, 'stays')",
}
MOVED |= {
    "identified otherwise for a while": "DELETE FROM {0} WHERE id = 9; CREATE UNIQUE INDEX {0}_n ON {0}_a (n);"
    "ALTER TABLE {0}_a REPLICA IDENTITY USING INDEX {0}_n; UPDATE {0} SET id = 9 WHERE id = 8;"
    "ALTER TABLE {0}_a REPLICA IDENTITY DEFAULT",
}
UNUSED = {
    "empty and dropped": "DROP TABLE {0}_z",
    "empty and detached": "ALTER TABLE {0} DETACH PARTITION {0}_z; INSERT INTO {0}_z VALUES (90, 1, 'alone')",
    "empty and emptied": "TRUNCATE {0}_z",
    "empty and written anew": "VACUUM FULL {0}_z",
    "made and dropped unused": f"CREATE TABLE {{0}}_c PARTITION OF {{0}} {BOUND}; UPDATE {{0}} SET n = 9 WHERE id = 1;"
    "DROP TABLE {0}_c",
}
"""Of a partition of which no row ever came."""
CONCURRENTLY = {"detached concurrently": "ALTER TABLE {0} DETACH PARTITION {0}_a CONCURRENTLY"}
SAID = {
    "made": f"CREATE TABLE {{0}}_c PARTITION OF {{0}} {BOUND}; INSERT INTO {{0}} VALUES (20, 1, 'made')",
    "made with partitions": f"CREATE TABLE {{0}}_c PARTITION OF {{0}} {BOUND} PARTITION BY RANGE (id);"
    "CREATE TABLE {0}_d PARTITION OF {0}_c DEFAULT; INSERT INTO {0} VALUES (20, 1, 'made')",
}
EMPTY = {
    "attached empty": "CREATE TABLE {0}_c (LIKE {0} INCLUDING ALL);"
    f"ALTER TABLE {{0}} ATTACH PARTITION {{0}}_c {BOUND}",
}
TYPES = """
    CREATE TYPE {0}_e AS ENUM ('sad', 'ok'); CREATE DOMAIN {0}_d AS {0}_e; CREATE TYPE {0}_c AS (e {0}_e, n int);
    CREATE TYPE {0}_r AS RANGE (subtype = {0}_e);
    CREATE TABLE {0} (id int PRIMARY KEY, v {1});
    INSERT INTO {0} VALUES (1, {2}), (2, NULL)
"""
HELD = {
    "enum": ("{0}_e", "'ok'"),
    "array": ("{0}_e[]", "ARRAY['ok', 'sad']::{0}_e[]"),
    "domain": ("{0}_d", "'ok'"),
    "composite": ("{0}_c", "ROW('ok', 1)::{0}_c"),
    "composites": ("{0}_c[]", "ARRAY[ROW('ok', 1)]::{0}_c[]"),
    "range": ("{0}_r", "'[sad,ok]'"),
}
RENAMED = "ALTER TYPE {0}_e RENAME VALUE 'ok' TO 'fine'"
LABELLED = "ALTER TYPE {0}_e ADD VALUE 'new' BEFORE 'ok'"
ATTRIBUTES = {
    "ALTER TYPE {0}_c ADD ATTRIBUTE m int": True,
    "ALTER TYPE {0}_c DROP ATTRIBUTE n": True,
    "ALTER TYPE {0}_c RENAME ATTRIBUTE n TO m": False,
    "ALTER TYPE {0}_c ADD ATTRIBUTE m int; UPDATE {0} SET v = ROW('ok', 1, 2); ALTER TYPE {0}_c DROP ATTRIBUTE m": True,
    "ALTER TYPE {0}_e RENAME VALUE 'ok' TO 'fine'; UPDATE {0} SET v = ROW('fine', 3);"
    "ALTER TYPE {0}_e RENAME VALUE 'fine' TO 'ok'": True,
}


def act(producer: ProducerUnderTest, statements: str) -> None:
    """Each by itself, unless it says BEGIN."""
    with producer.database.connect() as connection:
        for each in statements.split(";"):
            connection.execute(each.encode())


def check_copied(producer: ProducerUnderTest, running: Running, wanted: Mapping[str, bool]) -> None:
    """All is equal; of these tables those were copied again that had to be, and no other."""
    count = sum(wanted.values())
    wait_until(lambda: running.log.count("table is copied") >= count, f"{count} copies")
    wait_until(lambda: states(producer) == {"current"}, "all to be current")
    producer.check_equal()
    copied = {name: "copy_begin" in barriers_of(producer, name) for name in wanted}
    assert copied == wanted, {each for each in wanted if copied[each] != wanted[each]}


def tell_partitions(producer: ProducerUnderTest, acts: Mapping[str, str], how: str) -> None:
    statements = {**SAID, **EMPTY, **UNUSED, **acts}
    roots = {f"r{number}": each for number, each in enumerate(statements)}
    for name in roots:
        producer.database.execute(ROOT.format(name))
    producer.publish(*roots, options="WITH (publish_via_partition_root = true)")
    running = producer.start_streaming()
    producer.check_equal()
    if how == "stopped":
        running.stop()
    for name, each in roots.items():
        act(producer, statements[each].format(name))
        if how == "changed at once":
            act(producer, f"INSERT INTO {name} VALUES (15, 3, 'late') ON CONFLICT (id) DO UPDATE SET v = 'late'")
    if how == "stopped":
        running = producer.start_streaming()
    check_copied(producer, running, {name: each in acts for name, each in roots.items()})
    for name in roots:
        producer.database.execute(f"UPDATE {name} SET v = 'in the end'")
    producer.check_equal()


@pytest.mark.parametrize("how", ["running", in_soak("stopped"), in_soak("changed at once")])
def test_root_is_copied_again_when_rows_came_or_went_with_partitions(producer: ProducerUnderTest, how: str) -> None:
    """Partitions that were made as such, or were empty, cost nothing."""
    tell_partitions(producer, MOVED | CONCURRENTLY, how)


@pytest.mark.parametrize("major", [in_soak(major) for major in MAJORS if major > 12])
def test_partitions_come_and_go_on_each_version(producer_on: Callable[[int], ProducerUnderTest], major: int) -> None:
    """Before 15 a session of the server that has decoded a change of a table does not notice that it was attached."""
    acts = MOVED | (CONCURRENTLY if major > 13 else {})
    tell_partitions(producer_on(major), acts | (EMPTY if major < 15 else {}), "running")


@pytest.mark.variant(of="test_columns_that_print_names_are_told_and_copied_again_after_a_rename")
@pytest.mark.parametrize("how", [in_soak("running"), in_soak("stopped"), "changed at once"])
def test_table_whose_labels_or_attributes_read_otherwise_is_copied_again(producer: ProducerUnderTest, how: str) -> None:
    """A new label costs nothing: no row holds it yet."""
    acts = {f"{held}_{what}": (held, act) for held in HELD for what, act in (("r", RENAMED), ("l", LABELLED))}
    acts |= {f"attributes{number}": ("composite", act) for number, act in enumerate(ATTRIBUTES)}
    for name, (held, _) in acts.items():
        a_type, value = (each.format(name) for each in HELD[held])
        producer.database.execute(TYPES.format(name, a_type, value))
    producer.database.execute("CREATE PUBLICATION walbridge FOR ALL TABLES")
    running = producer.start_streaming()
    producer.check_equal()
    if how == "stopped":
        running.stop()
    for name, (_, statement) in acts.items():
        act(producer, statement.format(name))
        if how == "changed at once":
            act(producer, f"UPDATE {name} SET id = 3 WHERE id = 2")
    if how == "stopped":
        running = producer.start_streaming()
    check_copied(producer, running, {name: ATTRIBUTES.get(said, said == RENAMED) for name, (_, said) in acts.items()})


@pytest.mark.variant(of="test_truncate_empties_every_table_it_names_or_cascades_to")
def test_table_that_is_emptied_is_not_copied(producer: ProducerUnderTest) -> None:
    """A look may show its new file, or those of its partitions, before the stream brings the TRUNCATE."""
    execute = producer.database.execute
    execute(f"{ROOT.format('p')}; CREATE TABLE t (id int PRIMARY KEY)")
    execute("CREATE PUBLICATION walbridge FOR ALL TABLES WITH (publish_via_partition_root = true)")
    running = producer.start_streaming()
    producer.check_equal()
    for count in range(4):
        if count == 3:
            running.stop()
        execute("TRUNCATE p, t")
        execute(f"INSERT INTO p VALUES ({count}, 1, 'new'); INSERT INTO t VALUES ({count})")
        if count == 3:
            producer.start_streaming()
        producer.check_equal()
    for name in "pt":
        assert barriers_of(producer, name) == ["truncate"] * 4


@pytest.mark.variant(of="test_root_is_copied_again_when_rows_came_or_went_with_partitions")
def test_table_that_becomes_a_partition_is_left_and_its_rows_are_its_roots(producer: ProducerUnderTest) -> None:
    """What comes of it afterwards comes as its root's; what is detached is a table that comes."""
    execute = producer.database.execute
    execute(ROOT.format("p"))
    execute(FILLED.format("p"))
    execute("CREATE PUBLICATION walbridge FOR ALL TABLES WITH (publish_via_partition_root = true)")
    running = producer.start_streaming()
    execute("INSERT INTO p_c VALUES (21, 1, 'alone')")
    producer.check_equal()
    execute(f"ALTER TABLE p ATTACH PARTITION p_c {BOUND}")
    execute("INSERT INTO p VALUES (22, 1, 'below')")
    wait_until(lambda: "copy_end" in barriers_of(producer, "p"), "the root to be copied")
    assert states(producer) == {"current", "dropped"}
    assert barriers_of(producer, "p") == ["dropped", "copy_begin", "copy_end"]
    assert barriers_of(producer, "p_c") == ["dropped"]
    execute("ALTER TABLE p DETACH PARTITION p_c; INSERT INTO p_c VALUES (23, 1, 'alone again')")
    wait_until(lambda: states(producer) == {"current"}, "both to be current")
    producer.check_equal()
    running.stop()
    act(producer, f"ALTER TABLE p ATTACH PARTITION p_c {BOUND}; INSERT INTO p VALUES (24, 1, 'below for a while')")
    act(producer, "ALTER TABLE p DETACH PARTITION p_c; UPDATE p SET n = 8 WHERE id = 1")
    producer.start_streaming()
    producer.check_equal()


@pytest.mark.parametrize("via_root", [True, in_soak(False)])
def test_tables_are_copied_anew_when_the_publication_names_them_otherwise(
    producer: ProducerUnderTest, via_root: bool
) -> None:
    """The root and not its partitions, or the other way round; what is named no more is not current."""
    before, after = str(via_root).lower(), str(not via_root).lower()
    producer.database.execute(ROOT.format("p"))
    producer.publish("p", options=f"WITH (publish_via_partition_root = {before})")
    running = producer.start_streaming()
    producer.check_equal()
    producer.database.execute(
        f"ALTER PUBLICATION walbridge SET (publish_via_partition_root = {after}); UPDATE p SET v = 'new' WHERE id < 12"
    )
    wanted, left = {"public.p_a", "public.p_b", "public.p_z"}, {"public.p"}
    if not via_root:
        wanted, left = left, wanted
    # By name: a table of which no row came is announced after the others, and has no state until then.
    ended = dict.fromkeys(wanted, "current") | dict.fromkeys(left, "dropped")
    wait_until(lambda: states_by_name(settings_of(producer)) == ended, "the others to be current")
    producer.database.execute("UPDATE p SET v = 'newer' WHERE id > 7")
    with producer.topics() as topics:
        producer.caught_up(topics)
        replayed = topics.replay()
    named = [relation for relation in replayed if relation.table.qualified_name in wanted]
    assert len(named) == len(wanted)
    for relation in named:
        there = Counter(map(comparable, replayed.rows(relation.table.namespace, relation.table.name)))
        assert there == Counter(map(comparable, source_rows(producer.database, relation, "true")))
    for name in left:
        assert f"table {name} as its root, or as its partitions: no change comes under its own name" in running.log
    assert forget(settings_of(producer), sorted(left), say=lambda line: None) == 0
    wait_until(lambda: states(producer) == {"current"}, "the others to be forgotten")


UNSENT = {
    "unlogged": ("CREATE UNLOGGED TABLE p_c PARTITION OF p FOR VALUES FROM (20) TO (30)", "ALTER TABLE p_c SET LOGGED"),
    "set unlogged": ("ALTER TABLE p_a SET UNLOGGED", "ALTER TABLE p_a SET LOGGED"),
}


@pytest.mark.parametrize(
    ("kind", "while_running"),
    [("unlogged", True), in_soak("set unlogged", False), in_soak("unlogged", False), in_soak("set unlogged", True)],
)
def test_root_is_not_current_while_a_partition_of_it_is_never_sent(
    producer: ProducerUnderTest, kind: str, while_running: bool
) -> None:
    """What is read of it now changes unsaid. The others go on, and it is copied once that is mended."""
    producer.database.execute(ROOT.format("p"))
    producer.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    producer.publish("p", "t", options="WITH (publish_via_partition_root = true)")
    running = producer.start_streaming()
    producer.check_equal()
    made, mended = UNSENT[kind]
    if not while_running:
        running.stop()
    act(producer, f"{made}; INSERT INTO t VALUES (1)")
    if not while_running:
        running = producer.start_streaming()
    running.wait_for_log("table is not published: it cannot be copied now")
    assert "Postgres never sends its changes" in running.log
    assert states(producer) == {"current", "stale"}
    act(producer, f"{mended}; INSERT INTO t VALUES (2)")
    wait_until(lambda: states(producer) == {"current"}, "the root to be copied")
    producer.check_equal()
