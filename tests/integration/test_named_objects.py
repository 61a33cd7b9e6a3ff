"""Values that Postgres prints as names of other objects: what is said of them, and what a rename does."""

from __future__ import annotations

from tests.faults.followed import settings_of
from tests.fix_producer import ProducerUnderTest
from walbridge.check.finding import Severity
from walbridge.check.verb import all_findings
from walbridge.tables.copy import copy

MADE = """
    CREATE DOMAIN kind AS regtype;
    CREATE TYPE pair AS (n int, at regclass[]);
    CREATE SCHEMA other; CREATE TABLE other.before ();
    CREATE TABLE t (id int PRIMARY KEY, "of" regclass, k kind, p pair, v point, hidden regrole);
    CREATE TABLE u (id int PRIMARY KEY, v oid, w point, x name);
    INSERT INTO t VALUES (1, 'other.before', 'int', ROW(1, '{other.before}'), '(1,2)', current_user::text::regrole)
"""


def test_columns_that_print_names_are_told_and_copied_again_after_a_rename(producer: ProducerUnderTest) -> None:
    """Neither copy nor stream hears of it: rows keep the name with which they came."""
    execute = producer.database.execute
    execute(MADE)
    producer.publish('t (id, "of", k, p, v)', "u")
    running = producer.start_streaming()
    execute('INSERT INTO t SELECT 2, "of", k, p, v FROM t')
    producer.check_equal()

    execute("ALTER TABLE other.before RENAME TO after; INSERT INTO u VALUES (1, 1)")
    with producer.topics() as topics:
        producer.caught_up(topics)
        rows = topics.replay().rows("public", "t")
    assert {row["of"] for row in rows} == {"other.before"}
    assert len(rows) == 2

    (found,) = [each for each in all_findings(settings_of(producer)) if "names of other objects" in each.text]
    assert found.severity is Severity.WARNING
    assert "table public.t has values" in found.text
    assert "objects: of (regclass), k (regtype), p (regclass). When" in found.text
    assert found.remedy is not None
    assert found.remedy.startswith("walbridge copy public.t after that")
    assert running.log.count(found.text) == 1

    assert copy(settings_of(producer), ["public.t"], wait=True, say=print) == 0
    producer.check_equal()
