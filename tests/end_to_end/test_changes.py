"""Every kind of change, from a commit in Postgres to rows in Delta."""

from __future__ import annotations

import pytest

from tests.fix_pipeline import PipelineUnderTest

BIG = "(SELECT string_agg(md5(i::text || {salt}), '') FROM generate_series(1, 15700) i)"  # 500 kB, incompressible

TABLES = """
    CREATE TABLE plain (id int PRIMARY KEY, v text, n numeric(12,2), at timestamptz DEFAULT now());
    CREATE TABLE toasted (id int PRIMARY KEY, n int, body text, words text[]);
    CREATE TABLE toasted_key (k text PRIMARY KEY, n int);
    CREATE TABLE composite (a int, b date, v text, PRIMARY KEY (a, b));
    CREATE TABLE by_index (id int PRIMARY KEY, code text NOT NULL, v int);
    CREATE UNIQUE INDEX by_code ON by_index (code);
    ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_code;
    CREATE TABLE full_with_key (id int PRIMARY KEY, v text, body text);
    ALTER TABLE full_with_key REPLICA IDENTITY FULL;
    CREATE TABLE full_without_key (a int, f float8, t text);
    ALTER TABLE full_without_key REPLICA IDENTITY FULL;
    CREATE TABLE identity_nothing (id int PRIMARY KEY, v text);
    ALTER TABLE identity_nothing REPLICA IDENTITY NOTHING;
    CREATE TABLE without_key (a int, t text);
    CREATE TABLE without_columns ();
"""
NAMES = (
    "plain, toasted, toasted_key, composite, by_index, full_with_key, full_without_key, identity_nothing, "
    "without_key, without_columns"
)


def test_every_kind_of_change_under_every_identity_arrives_as_the_source_has_it(pipeline: PipelineUnderTest) -> None:
    """I5, I6, I8: after each step the published cut equals the source."""
    database = pipeline.database
    database.execute(TABLES)
    database.execute(
        f"""
        INSERT INTO plain SELECT i, 'v' || i, i / 3.0 FROM generate_series(1, 50) i;
        INSERT INTO toasted VALUES (1, 1, {BIG.format(salt="'a'")}, NULL), (2, 2, {BIG.format(salt="'b'")}, '{{x}}');
        INSERT INTO full_without_key VALUES (1, 0, 'x'), (1, 0, 'x'), (1, '-0', 'x'), (2, 'NaN', NULL);
        INSERT INTO composite VALUES (1, '2024-01-01', 'a'), (1, 'infinity', 'b'), (2, '12000-01-01', 'c');
        """
    )
    pipeline.producer.publish(*NAMES.split(", "))
    pipeline.producer.start_streaming()
    pipeline.check_equal()

    database.execute("""
        INSERT INTO plain SELECT i, 'w' || i FROM generate_series(51, 80) i;
        UPDATE plain SET v = v || '!' WHERE id <= 20;
        DELETE FROM plain WHERE id BETWEEN 10 AND 15;
        UPDATE plain SET id = id + 1000 WHERE id BETWEEN 16 AND 20;
        UPDATE toasted SET n = n + 1;
        UPDATE toasted SET n = n + 1 WHERE id = 1;
        INSERT INTO toasted_key SELECT string_agg(md5(i::text), ''), 1 FROM generate_series(1, 70) i;
        UPDATE composite SET v = 'bb' WHERE b = 'infinity';
        DELETE FROM composite WHERE b = '12000-01-01';
        INSERT INTO by_index VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3);
        UPDATE by_index SET id = id + 10;
        UPDATE by_index SET code = 'drei' WHERE code = 'three';
        DELETE FROM by_index WHERE code = 'one';
        INSERT INTO full_with_key SELECT i, 'v', repeat('body', 3000) FROM generate_series(1, 5) i;
        UPDATE full_with_key SET v = 'u' WHERE id = 1;
        UPDATE full_with_key SET id = 50 WHERE id = 5;
        DELETE FROM full_with_key WHERE id = 2;
        INSERT INTO identity_nothing VALUES (1, 'a'), (2, 'b');
        INSERT INTO without_key VALUES (1, 'a'), (1, 'a'), (NULL, NULL);
        INSERT INTO without_columns DEFAULT VALUES;
        INSERT INTO without_columns DEFAULT VALUES;
    """)
    # One of two equal rows goes, one of the remaining changes.
    database.execute("DELETE FROM full_without_key WHERE ctid = (SELECT min(ctid) FROM full_without_key WHERE a = 1)")
    database.execute("UPDATE full_without_key SET t = 'y' WHERE f = '-0' AND f::text = '-0'")
    database.execute("DELETE FROM full_without_key WHERE a = 2")
    database.execute("UPDATE toasted_key SET n = 2")
    pipeline.check_equal()
    assert sorted(row["id"] for row in pipeline.contents("toasted")) == [1, 2]
    assert all(len(row["body"]) > 500_000 for row in pipeline.contents("toasted"))
    assert len(pipeline.contents("without_columns")) == 2

    database.execute("""
        UPDATE toasted SET id = id + 10;
        UPDATE toasted SET id = id + 10, n = 0 WHERE id = 11;
        UPDATE toasted_key SET k = k || 'x';
        TRUNCATE without_key, without_columns, plain;
        INSERT INTO plain (id, v) VALUES (1, 'after');
        INSERT INTO without_key VALUES (2, 'after');
        UPDATE plain SET v = 'later' WHERE id = 1;
    """)
    pipeline.check_equal()
    assert sorted(row["id"] for row in pipeline.contents("toasted")) == [12, 21]
    assert pipeline.contents("plain")[0]["v"] == "later"


@pytest.mark.soak
def test_columns_come_and_go_between_changes(pipeline: PipelineUnderTest) -> None:
    database = pipeline.database
    database.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b int)")
    database.execute("INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2)")
    pipeline.producer.publish("t")
    pipeline.producer.start_streaming()
    pipeline.check_equal()

    database.execute("INSERT INTO t VALUES (3, 'z', 3)")
    database.execute("ALTER TABLE t ADD COLUMN c numeric(10,2)")
    database.execute("UPDATE t SET c = 1.50 WHERE id = 3")
    pipeline.check_equal()

    database.execute("ALTER TABLE t DROP COLUMN b")
    database.execute("INSERT INTO t VALUES (4, 'w', 2.25)")
    pipeline.check_equal()

    database.execute("ALTER TABLE t RENAME COLUMN a TO aa")
    database.execute("ALTER TABLE t ALTER COLUMN id TYPE bigint")
    database.execute("INSERT INTO t VALUES (50000000000, 'big', 0)")
    pipeline.check_equal()
    assert set(pipeline.contents("t")[0]) == {"id", "aa", "c"}


@pytest.mark.variant(of="test_odd_names_reach_readers_unchanged")
def test_names_that_other_systems_refuse_arrive_and_stay_apart(pipeline: PipelineUnderTest) -> None:
    database = pipeline.database
    database.execute("""
        CREATE SCHEMA "_cuts"; CREATE SCHEMA "Odd.Schema";
        CREATE TABLE "_cuts"."plan" (id int PRIMARY KEY);
        CREATE TABLE "Odd.Schema"."Ta""b.l e" ("I d" int PRIMARY KEY, "a.b" text, "x`y" text, "A" int, "a" int,
                                              "_walbridge" text, "größe=1;" text, "1st" int, "{}" text);
        CREATE TABLE "CASE" (id int PRIMARY KEY, v text); CREATE TABLE "case" (id int PRIMARY KEY, v text);
        INSERT INTO "CASE" VALUES (1, 'upper'); INSERT INTO "case" VALUES (1, 'lower');
        INSERT INTO "_cuts"."plan" VALUES (7);
    """)
    odd = '"Odd.Schema"."Ta""b.l e"'
    database.execute(f"INSERT INTO {odd} VALUES (1, 'dot', 'tick', 1, 2, 'ours', 'g', 3, 'braces')")
    pipeline.producer.publish('"_cuts"."plan"', odd, '"CASE"', '"case"')
    pipeline.producer.start_streaming()
    pipeline.check_equal()

    database.execute(f"""UPDATE {odd} SET "a.b" = 'dot2', "A" = 10; INSERT INTO {odd} ("I d") VALUES (2)""")
    database.execute('UPDATE "CASE" SET v = \'UP\'; DELETE FROM "case"')
    pipeline.check_equal()
    assert pipeline.contents("CASE")[0]["v"] == "UP"
    assert pipeline.contents("case") == []
