"""One pipeline that follows several publications: what any of them publishes comes, once (I4, I7)."""

from __future__ import annotations

import re

import pytest

from tests.faults.followed import settings_of
from tests.fix_producer import ProducerUnderTest
from walbridge.check.finding import Finding, Severity
from walbridge.check.verb import all_findings
from walbridge.schemas.errors import COPY_ALL

pytestmark = pytest.mark.fault

NAMES = ('Sales, "EU" 表', "walbridge.two")
TABLES = "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY, v text)"


def _follow(producer: ProducerUnderTest, *names: str) -> None:
    producer.settings["postgres"] = {"publications": list(names)}


@pytest.mark.variant(
    of="test_tables_of_publications_that_are_named_in_addition_or_no_more_come_and_go_and_the_others_go_on"
)
def test_tables_of_two_publications_are_copied_and_followed_and_so_is_one_that_comes_to_either(
    producer: ProducerUnderTest,
) -> None:
    execute = producer.database.execute
    execute(f'{TABLES}; CREATE TABLE "o.d""d" (id int PRIMARY KEY); INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)')
    producer.publish("t", name=NAMES[0])
    producer.publish("u", name=NAMES[1])
    _follow(producer, *NAMES)
    running = producer.start_streaming()
    execute("INSERT INTO t VALUES (2); INSERT INTO u VALUES (2); DELETE FROM u WHERE id = 1; TRUNCATE t")
    producer.check_equal()

    execute('INSERT INTO "o.d""d" VALUES (1); ALTER PUBLICATION "walbridge.two" ADD TABLE "o.d""d"')
    running.wait_for_log("table is copied")
    execute('INSERT INTO "o.d""d" VALUES (2)')
    producer.check_equal()


def test_table_in_two_publications_has_the_rows_of_both_filters_and_a_partition_comes_as_its_root(
    producer: ProducerUnderTest,
) -> None:
    """I4: though each change is published twice, it comes once."""
    execute = producer.database.execute
    execute(
        f"{TABLES}; CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);"
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);"
        "ALTER TABLE t REPLICA IDENTITY FULL;"
        "INSERT INTO t SELECT i, 'v' FROM generate_series(1, 9) i; INSERT INTO p SELECT id, v FROM t"
    )
    producer.publish("t WHERE (id > 6)", "u", "p", options="WITH (publish_via_partition_root = true)", name=NAMES[0])
    producer.publish("t WHERE (id < 3)", "u", "p1", options="WITH (publish = 'insert, update, delete')", name=NAMES[1])
    execute("CREATE PUBLICATION \"truncates\" FOR TABLE t WITH (publish = 'truncate')")
    _follow(producer, *NAMES, "truncates")
    producer.start_streaming()
    execute("INSERT INTO t VALUES (5000, 'in'), (0, 'in'), (-1, 'in'); INSERT INTO p VALUES (19, 'x')")
    execute("DELETE FROM t WHERE id = 5; UPDATE t SET id = 5 WHERE id = 1; UPDATE t SET id = -5 WHERE id = 4")
    execute("UPDATE p SET id = 15 WHERE id = 5")
    execute("UPDATE t SET id = id + 100 WHERE id > 6; DELETE FROM t WHERE id IN (2, 3); INSERT INTO u VALUES (1)")

    with producer.topics() as topics:
        producer.caught_up(topics)
        replayed = topics.replay()

    def rows(table: str) -> list[int]:
        return sorted(row["id"] for row in replayed.rows("public", table))

    assert {each.table.name for each in replayed} == {"t", "u", "p"}
    assert rows("t") == [
        each for (each,) in producer.database.rows("SELECT id FROM t WHERE id > 6 OR id < 3 ORDER BY 1")
    ]
    assert rows("p") == [each for (each,) in producer.database.rows("SELECT id FROM p ORDER BY 1")]
    assert rows("u") == [1]


def test_list_of_all_columns_beside_no_list_is_told_before_a_column_is_added_and_its_remedy_helps(
    producer: ProducerUnderTest,
) -> None:
    """The server takes both for the same until then, and ends the stream at the next change."""
    execute = producer.database.execute
    execute(f"{TABLES}; ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t VALUES (1, 'a')")
    producer.publish("t (id, v) WHERE (id > 0)", "u (id, v)", name="a")
    producer.publish("t", "u (v, id)", name="b")
    _follow(producer, "a", "b")
    running = producer.start_streaming()
    listed = "publication a lists all columns of table public.t, and publication b none"

    def said() -> list[Finding]:
        return [each for each in all_findings(settings_of(producer)) if "all columns of table" in each.text]

    (found,) = said()
    assert (found.severity, found.text.partition(":")[0]) == (Severity.WARNING, listed)
    assert running.log.count(found.text) == 1
    (sql,) = re.findall(r"ALTER .*;", str(found.remedy))
    assert sql.endswith('ADD TABLE "public"."t" WHERE ((id > 0));')

    execute(sql)
    running.wait_for_log('event="table is copied"')
    execute("ALTER TABLE t ADD w int; INSERT INTO t VALUES (2, 'b', 3)")
    producer.check_equal()
    assert said() == []


REFUSED = {
    "publish different columns of table public.t": (
        "t (id)",
        "t",
        "",
        'ALTER PUBLICATION "b" DROP TABLE "public"."t"; ALTER PUBLICATION "b" ADD TABLE "public"."t" ("id");',
    ),
    "publish other rows of table public.t for inserts than": (
        "t WHERE (id > 5)",
        "t",
        "WITH (publish = 'insert, truncate')",
        "ALTER PUBLICATION \"b\" SET (publish = 'insert, update, delete, truncate');",
    ),
    "publication b does not publish delete, truncate of table public.u": (
        "t",
        "t, u",
        "WITH (publish = 'insert, update')",
        "ALTER PUBLICATION \"b\" SET (publish = 'insert, update, delete, truncate');",
    ),
}


@pytest.mark.parametrize(("words", "case"), REFUSED.items(), ids=[*REFUSED])
def test_publications_that_do_not_go_together_are_refused_before_there_is_a_slot_and_the_remedy_helps(
    producer: ProducerUnderTest, words: str, case: tuple[str, str, str, str]
) -> None:
    """I8: Postgres fails at the first change, or sends rows that no copy equals."""
    of_a, of_b, options, remedy = case
    producer.database.execute(TABLES)
    producer.publish(of_a, name="a")
    producer.publish(of_b, options=options, name="b")
    _follow(producer, "a", "b")
    said = producer.refusal()
    assert words in said
    assert remedy in said
    assert producer.database.rows("SELECT FROM pg_replication_slots WHERE slot_name = %s", [producer.slot]) == []
    producer.database.execute(remedy)
    producer.start_streaming()
    producer.database.execute("INSERT INTO t VALUES (1, 'a'), (7, 'b')")
    with producer.topics() as topics:
        producer.caught_up(topics)
        assert [row["id"] for row in topics.replay().rows("public", "t")][-1] == 7


@pytest.mark.variant(of="test_tables_come_go_and_come_back_under_load_and_a_filter_changes")
def test_change_of_one_publication_has_its_tables_copied_again_and_leaves_those_of_the_other(
    producer: ProducerUnderTest,
) -> None:
    """I7: rows that its filter left out were never sent; what another publication adds may void a filter."""
    execute = producer.database.execute
    execute(f"{TABLES}; ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t VALUES (1), (4), (9)")
    producer.publish("t WHERE (id > 5)", name="a")
    producer.publish("u", name="b")
    _follow(producer, "a", "b")
    running = producer.start_streaming()
    execute("ALTER PUBLICATION b ADD TABLE t WHERE (id < 3); INSERT INTO t VALUES (2), (5); INSERT INTO u VALUES (1)")
    running.wait_for_log("table public.t was taken out of publication b and put back")
    running.wait_for_log("table is copied")
    producer.check_equal(filters={"public.t": "id > 5 OR id < 3"})
    assert "public.u was taken" not in running.log

    running.stop()
    execute("ALTER PUBLICATION b DROP TABLE t; INSERT INTO t VALUES (10), (0)")
    running = producer.start_streaming()
    running.wait_for_log("table is copied")
    producer.check_equal(filters={"public.t": "id > 5"})


@pytest.mark.variant(of="test_change_of_the_publication_under_a_running_producer_stops_it_where_settings_say_so")
def test_publication_that_is_made_again_stops_the_pipeline_and_is_named(
    producer: ProducerUnderTest,
) -> None:
    """I7: a gap is never hidden."""
    execute = producer.database.execute
    execute(TABLES)
    producer.publish("t", name="a")
    producer.publish("u", name="b")
    _follow(producer, "a", "b")
    producer.start_streaming().stop()
    _follow(producer, "b", "a")
    running = producer.start_streaming()
    running.stop()
    assert "other publications" not in running.log

    execute("DROP PUBLICATION b; CREATE PUBLICATION b FOR TABLE u")
    words = producer.refusal()
    assert "publication b was dropped and made again" in words
    assert COPY_ALL in words
