"""Postgres' manual on row filters, column lists and generated columns, played beside a native subscriber (I4, I8).

Its examples, with statements for each rule that it states in words. Beside a subscriber that has been there from the
first row on, and, once a publication was altered, beside one that begins then: a filter says nothing of rows that were
sent before, and the producer copies the table again.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

import pytest

from tests.faults.followed import wait_until_current
from tests.fix_pipeline import PipelineUnderTest
from tests.fix_producer import ProducerUnderTest
from tests.integration.native_subscriber import Subscriber
from tests.replay import Row
from tests.source_rows import comparable, source_rows
from walbridge.schemas.control.metadata_record import RelationRecord
from walbridge.spark_consumer.read import tables_at

pytestmark = [pytest.mark.soak, pytest.mark.servers]
VIA_ROOT = "WITH (publish_via_partition_root = true)"


@dataclass(frozen=True)
class Section:
    """Of the manual: its tables, rows that are copied, publications, and statements; then ALTER PUBLICATION.

    Args:
        there: tables of the subscriber, where they are others.
        rows: what the manual prints at the end of ``writes``, by table.
    """

    tables: str
    publications: dict[str, str]
    writes: tuple[str, ...]
    before: str = ""
    there: str = ""
    rows: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)
    altered: tuple[str, ...] = ()
    versions: Collection[int] = range(15, 19)


T1 = ", ".join(
    f"({a}, {100 + a}, '{c}')" for a, c in enumerate(("NSW", "QLD", "VIC", "ACT", "NSW", "NT", "QLD", "NSW"), 2)
)
PARENT = """
    CREATE TABLE {0} (a int PRIMARY KEY) PARTITION BY RANGE (a); CREATE TABLE {0}_child PARTITION OF {0} DEFAULT"""
INTO_BOTH = ("INSERT INTO {0} VALUES (2), (4), (6)", "INSERT INTO {0}_child VALUES (3), (5), (7)")
MOVED = (
    "UPDATE {0} SET a = a + 10 WHERE a IN (2, 5)",
    "UPDATE {0} SET a = 1 WHERE a = 6",
    "DELETE FROM {0} WHERE a = 3",
)


def _of(name: str, texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(text.format(name) for text in texts)


CHAPTER = {
    "29.4.6, row filters": Section(
        "CREATE TABLE t1 (a int, b int, c text, PRIMARY KEY (a, c))",
        {"p1": "FOR TABLE t1 WHERE (a > 5 AND c = 'NSW')"},
        (
            f"INSERT INTO t1 VALUES {T1}",
            "UPDATE t1 SET b = 999 WHERE a = 6",
            "UPDATE t1 SET a = 555 WHERE a = 2",
            "UPDATE t1 SET c = 'VIC' WHERE a = 9",
        ),
        rows={"t1": [(6, 999, "NSW"), (555, 102, "NSW")]},
        altered=("ALTER PUBLICATION p1 SET TABLE t1 WHERE (a > 5)", "ALTER PUBLICATION p1 SET TABLE t1"),
    ),
    "29.4.5, combined filters": Section(
        "CREATE TABLE c1 (a int, b int, c text, PRIMARY KEY (a, c)); CREATE TABLE c2 (d int PRIMARY KEY, e int, f int);"
        "CREATE TABLE c3 (g int PRIMARY KEY, h int, i int);"
        "ALTER TABLE c2 REPLICA IDENTITY FULL",
        {
            "c_1": "FOR TABLE c1 WHERE (a > 5 AND c = 'NSW')",
            "c_2": "FOR TABLE c1, c2 WHERE (e = 99)",
            "c_3": "FOR TABLE c2 WHERE (d = 10), c3 WHERE (g = 10)",
        },
        (
            f"INSERT INTO c1 VALUES {T1}",
            "INSERT INTO c2 VALUES (1, 99, 0), (10, 1, 0), (3, 3, 0), (4, 4, 0)",
            "INSERT INTO c3 VALUES (9, 0, 0), (10, 0, 0)",
            "UPDATE c2 SET d = 10 + d WHERE d > 1",
            "UPDATE c2 SET e = 99 WHERE d = 14",
            "UPDATE c3 SET g = 11 WHERE g = 10",
            "UPDATE c3 SET g = 10 WHERE g = 8",
            "DELETE FROM c1 WHERE a = 3",
        ),
        before="INSERT INTO c2 VALUES (0, 99, 1), (5, 5, 1); INSERT INTO c3 VALUES (8, 0, 0)",
        altered=("ALTER PUBLICATION c_3 SET TABLE c2, c3 WHERE (g > 8)", "ALTER PUBLICATION c_2 SET TABLE c1"),
    ),
    "29.4.3, UPDATE transformations": Section(
        "CREATE TABLE u (id int PRIMARY KEY, k int NOT NULL, v int); ALTER TABLE u REPLICA IDENTITY FULL;"
        "CREATE TABLE of_key (id int PRIMARY KEY, v int)",
        {"u_1": "FOR TABLE u WHERE (k > 5 AND v IS NOT NULL), of_key WHERE (id % 2 = 0)"},
        (
            "UPDATE u SET v = v + 1",
            "UPDATE u SET k = 9 WHERE id = 1",
            "UPDATE u SET k = 1 WHERE id = 7",
            "UPDATE u SET v = NULL WHERE id = 8",
            "UPDATE u SET v = 0 WHERE id = 9",
            "UPDATE u SET id = id + 100, k = 12 - k WHERE id IN (2, 3, 10)",
            "UPDATE of_key SET id = id + 21 WHERE id IN (3, 4)",
            "UPDATE of_key SET id = id + 40 WHERE id IN (5, 6)",
            "UPDATE of_key SET v = 9",
            "DELETE FROM u WHERE id IN (4, 11)",
            "DELETE FROM of_key WHERE id IN (7, 8)",
        ),
        before="INSERT INTO u SELECT i, i, nullif(i, 9) FROM generate_series(1, 12) i;"
        "INSERT INTO of_key SELECT i, 0 FROM generate_series(1, 10) i",
        altered=("ALTER PUBLICATION u_1 SET TABLE u WHERE (k < 5), of_key WHERE (id % 2 = 1)",),
    ),
    "29.4.2, a generated column in a filter": Section(
        "CREATE TABLE made (id int PRIMARY KEY, v int, g int GENERATED ALWAYS AS (id + v) STORED);"
        "ALTER TABLE made REPLICA IDENTITY FULL",
        {"m_1": "FOR TABLE made WHERE (g > 5)"},
        ("UPDATE made SET v = 4 - v WHERE id > 2", "DELETE FROM made WHERE id = 6"),
        before="INSERT INTO made (id, v) SELECT i, i % 3 FROM generate_series(1, 8) i",
        altered=("ALTER PUBLICATION m_1 SET TABLE made WHERE (g < 9)", "UPDATE made SET v = v + 1"),
        versions=range(15, 18),  # 18 takes no update where the identity has a generated column that is not published
    ),
    "29.4.1, TRUNCATE": Section(
        "CREATE TABLE tr (id int PRIMARY KEY); CREATE TABLE kept (id int PRIMARY KEY)",
        {"tr_1": "FOR TABLE tr WHERE (id > 5), kept WHERE (id > 5)"},
        ("INSERT INTO tr VALUES (7), (3); INSERT INTO kept VALUES (9)", "TRUNCATE tr; INSERT INTO tr VALUES (8), (2)"),
        before="INSERT INTO tr VALUES (1), (6); INSERT INTO kept VALUES (1), (6)",
        rows={"tr": [(8,)], "kept": [(6,), (9,)]},
        altered=("TRUNCATE kept; ALTER PUBLICATION tr_1 SET TABLE tr, kept; INSERT INTO kept VALUES (1)",),
    ),
    "29.4.6, partitions as their root": Section(
        PARENT.format("parent"),
        {"p4": f"FOR TABLE parent WHERE (a < 5), parent_child WHERE (a >= 5) {VIA_ROOT}"},
        _of("parent", INTO_BOTH),
        rows={"parent": [(2,), (3,), (4,)]},
        altered=_of("parent", MOVED),
    ),
    "29.4.6, partitions as themselves": Section(
        PARENT.format("other"),
        {"p5": "FOR TABLE other, other_child WHERE (a >= 5) WITH (publish_via_partition_root = false)"},
        _of("other", INTO_BOTH),
        rows={"other_child": [(5,), (6,), (7,)]},
        altered=_of("other", MOVED),
    ),
    "29.4.6, the second after the first": Section(
        PARENT.format("third"),
        {"p6": f"FOR TABLE third WHERE (a < 5), third_child WHERE (a >= 5) {VIA_ROOT}"},
        _of("third", MOVED),
        before="; ".join(_of("third", INTO_BOTH)),
        altered=(
            "BEGIN; ALTER PUBLICATION p6 SET TABLE third, third_child WHERE (a >= 5);"
            "ALTER PUBLICATION p6 SET (publish_via_partition_root = false); COMMIT",
            "UPDATE third SET a = 20 - a",
            f"ALTER PUBLICATION p6 SET {VIA_ROOT.removeprefix('WITH ')}",
            "INSERT INTO third VALUES (30)",
        ),
    ),
    "29.5.1, column lists": Section(
        "CREATE TABLE l1 (id int, a text, b text, c text, d text, e text, PRIMARY KEY (id))",
        {"l_1": "FOR TABLE l1 (id, b, a, d)"},
        (
            *(f"INSERT INTO l1 VALUES ({i}, 'a-{i}', 'b-{i}', 'c-{i}', 'd-{i}', 'e-{i}')" for i in (1, 2, 3)),
            "UPDATE l1 SET c = 'unsent', e = 'unsent' WHERE id = 1",
            "UPDATE l1 SET id = 9, d = 'moved' WHERE id = 2",
            "DELETE FROM l1 WHERE id = 3",
        ),
        before="INSERT INTO l1 VALUES (0, 'a', 'b', 'c', 'd', 'e')",
        there="CREATE TABLE l1 (id int, b text, a text, d text, PRIMARY KEY (id))",
        altered=(
            "ALTER PUBLICATION l_1 SET TABLE l1 (d, id)",
            "INSERT INTO l1 VALUES (4, 'a', 'b', 'c', 'd', 'e')",
            "UPDATE l1 SET id = id + 10, d = d || '!'; DELETE FROM l1 WHERE id = 11",
        ),
    ),
    "29.6, generated columns that no list names": Section(
        "CREATE TABLE g1 (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a + 1) STORED)",
        {"g_1": "FOR TABLE g1"},
        ("INSERT INTO g1 (id, a) VALUES (2, 2)", "UPDATE g1 SET a = 9 WHERE id = 1"),
        before="INSERT INTO g1 (id, a) VALUES (1, 1)",
        there="CREATE TABLE g1 (id int PRIMARY KEY, a int, g int)",
    ),
    "29.6, generated columns by option and by list": Section(
        "CREATE TABLE g2 (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a + 1) STORED);"
        "CREATE TABLE g3 (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a + 1) STORED)",
        {"g_2": "FOR TABLE g2 WITH (publish_generated_columns = stored)", "g_3": "FOR TABLE g3 (id, g)"},
        (
            "INSERT INTO g2 (id, a) VALUES (2, 2)",
            "INSERT INTO g3 (id, a) VALUES (2, 2)",
            "UPDATE g2 SET a = 9 WHERE id = 1",
            "UPDATE g3 SET a = 9 WHERE id = 1",
            "UPDATE g2 SET id = id + 10; UPDATE g3 SET id = id + 10",
            "DELETE FROM g2 WHERE id = 12; DELETE FROM g3 WHERE id = 12",
        ),
        before="INSERT INTO g2 (id, a) VALUES (1, 1); INSERT INTO g3 (id, a) VALUES (1, 1)",
        there="CREATE TABLE g2 (id int PRIMARY KEY, a int, g int); CREATE TABLE g3 (id int PRIMARY KEY, a int, g int)",
        altered=(
            "ALTER PUBLICATION g_2 SET (publish_generated_columns = none)",
            "ALTER PUBLICATION g_3 SET TABLE g3 (id, a)",
            "UPDATE g2 SET a = a + 1; UPDATE g3 SET a = a + 1",
            "ALTER PUBLICATION g_3 SET TABLE g3; UPDATE g3 SET id = id + 10",
        ),
        versions=[18],
    ),
}  # fmt: skip
Rows = dict[str, Counter[tuple[tuple[str, str], ...]]]


class Played:
    """The chapter on one server: a source, and subscribers to all of its publications."""

    def __init__(self, stack: contextlib.ExitStack, producer: ProducerUnderTest) -> None:
        self.producer, self._database = producer, producer.database
        version = int(self._database.value("SHOW server_version_num")) // 10000
        self._sections = [each for each in CHAPTER.values() if version in each.versions]
        self.publications = [name for each in self._sections for name in each.publications]
        for each in self._sections:
            self._database.execute(f"{each.tables};{each.before}")
            for name, definition in each.publications.items():
                self._database.execute(f"CREATE PUBLICATION {name} {definition}")
        producer.settings["postgres"] = {"publications": self.publications}
        self._subscriber = Subscriber(
            stack, self._database, ";".join(each.there or each.tables for each in self._sections)
        )

    def write(self) -> None:
        for each in (statement for section in self._sections for statement in section.writes):
            self._database.execute(each)

    def alter(self) -> None:
        """Publications, under one that follows; afterwards the subscriber begins anew."""
        for each in (statement for section in self._sections for statement in section.altered):
            self._database.execute(each)

    def subscribe(self) -> None:
        self._subscriber.clear()
        self._subscriber.subscribe(self.publications)
        self._subscriber.wait_until_copied()

    def check_as_printed(self) -> None:
        """The subscriber has what the manual prints, or the chapter is not what is played."""
        self._subscriber.catch_up()
        for name, rows in ((name, rows) for each in self._sections for name, rows in each.rows.items()):
            assert sorted(self._subscriber.database.rows(f"SELECT * FROM {name}")) == rows, name

    def published(self) -> set[str]:
        return {name for _, name in self.producer.published().values()}

    def settle(self) -> None:
        """The producer has looked at the publications as they are now, and all is copied."""
        with self.producer.topics() as topics:
            self.producer.caught_up(topics)
            self.producer.caught_up(topics, without_changes=True)
        wait_until_current(self.producer)
        self._subscriber.catch_up()

    def check_topics(self) -> None:
        """Each published table has in the topics what the subscriber has."""
        with self.producer.topics() as topics:
            self.producer.caught_up(topics)
            replayed = topics.replay()
        found = {each.table.name: each for each in replayed if each.table.name in self.published()}
        assert found.keys() == self.published()
        ours = {name: Counter(map(comparable, replayed.rows("public", name))) for name in found}
        assert ours == {name: Counter(map(comparable, self._there(found[name]))) for name in found}

    def _there(self, relation: RelationRecord) -> list[Row]:
        query = "SELECT to_regclass(%s)::oid::bigint"
        relation_id = self._subscriber.database.value(query, (relation.table.name,))
        table = replace(relation.table, relation_id=relation_id)
        return source_rows(self._subscriber.database, replace(relation, table=table))

    def check_lake(self, pipeline: PipelineUnderTest) -> None:
        """The same of the lake's newest published cut."""
        pipeline.materialize()
        frames = tables_at(pipeline.spark, str(pipeline.lake), tables=[f"public.{name}" for name in self.published()])
        for name, frame in frames.items():
            columns = [column for column in frame.columns if column != "_walbridge"]
            there = self._subscriber.database.rows(f"SELECT {', '.join(columns)} FROM {name}")
            assert Counter(map(tuple, frame.select(*columns).collect())) == Counter(there), name


@pytest.mark.parametrize("major", [15, 16, 17, 18])
def test_topics_hold_of_each_example_and_rule_what_a_second_postgres_holds(
    producer_on: Callable[[int], ProducerUnderTest], major: int
) -> None:
    with contextlib.ExitStack() as stack:
        played = Played(stack, producer_on(major))
        played.subscribe()
        played.producer.start_streaming()
        played.write()
        played.settle()
        played.check_as_printed()
        played.check_topics()

        played.alter()
        played.subscribe()
        played.settle()
        played.check_topics()

        played.producer.kill_all()


def test_lake_holds_of_each_example_and_rule_what_a_second_postgres_holds(pipeline: PipelineUnderTest) -> None:
    with contextlib.ExitStack() as stack:
        played = Played(stack, pipeline.producer)
        played.subscribe()
        running = played.producer.start_streaming()
        pipeline.materialize()
        played.write()
        played.settle()
        played.check_as_printed()
        played.check_lake(pipeline)

        running.kill()
        played.alter()
        played.producer.start_streaming()
        played.subscribe()
        played.settle()
        played.check_lake(pipeline)
        played.producer.kill_all()
