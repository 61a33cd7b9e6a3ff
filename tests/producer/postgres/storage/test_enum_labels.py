"""The catalogue tells of a label whether what wrote it was the first that its transaction wrote (I8)."""

from __future__ import annotations

from tests.fix_postgres import Database
from walbridge.producer.postgres.catalog import type_facts
from walbridge.producer.postgres.storage.enum_labels import EnumLabel, enum_labels


def labels(database: Database) -> dict[str, EnumLabel]:
    oid = database.value("SELECT 'e'::regtype::oid::bigint")
    with database.connect() as connection:
        return {name.decode(): label for name, label in enum_labels(connection, [oid], "none")[oid].items()}


def test_label_that_came_behind_something_else_in_its_transaction_is_told_from_one_that_came_first(
    database: Database,
) -> None:
    database.execute("CREATE TYPE e AS ENUM ('made', 'renamed'); CREATE TABLE t (id int)")
    database.execute("ALTER TYPE e ADD VALUE 'first'")
    database.execute("ALTER TYPE e RENAME VALUE 'renamed' TO 'called'")
    database.execute("BEGIN; INSERT INTO t VALUES (1); ALTER TYPE e ADD VALUE 'behind a row'; COMMIT")
    database.execute("BEGIN; SAVEPOINT s; ALTER TYPE e ADD VALUE 'in a savepoint'; COMMIT")
    database.execute("BEGIN; ALTER TYPE e ADD VALUE 'one'; ALTER TYPE e ADD VALUE 'two'; COMMIT")
    database.execute("BEGIN; ALTER TYPE e ADD VALUE 'stamped'; COMMIT")
    database.execute("BEGIN; ALTER TYPE e RENAME VALUE 'stamped' TO 'never'; ROLLBACK")
    found = labels(database)
    assert {name for name, label in found.items() if label.is_first} - {"made"} == {
        "first", "called", "in a savepoint", "one",
    }  # fmt: skip
    assert {name for name, label in found.items() if label.is_as_made} == {"made"}
    assert all(0 < label.xid < label.xmax and not label.is_old for label in found.values())
    assert found["one"].writer_fact != found["two"].fact


def test_label_that_its_transaction_wrote_again_or_added_is_not_as_its_type_was_made(database: Database) -> None:
    database.execute("CREATE TABLE t (id int)")
    database.execute(
        "BEGIN; INSERT INTO t VALUES (1); CREATE TYPE e AS ENUM ('made', 'renamed');"
        "ALTER TYPE e RENAME VALUE 'renamed' TO 'called'; ALTER TYPE e ADD VALUE 'added'; COMMIT"
    )
    assert {name for name, label in labels(database).items() if label.is_as_made} == {"made"}


def test_label_whose_command_nobody_can_tell_any_more_is_not_as_its_type_was_made(database: Database) -> None:
    database.execute("CREATE TYPE e AS ENUM ('made')")
    database.execute("BEGIN; DROP TYPE e; ROLLBACK")
    assert not labels(database)["made"].is_as_made


def test_ranges_name_the_type_of_their_bounds(database: Database) -> None:
    database.execute("CREATE TYPE e AS ENUM ('sad', 'ok'); CREATE TYPE span AS RANGE (subtype = e)")
    oids = database.rows(
        "SELECT typname::text, oid::bigint FROM pg_type WHERE typname IN ('e', 'span', 'span_multirange')"
    )
    of = dict(oids)
    with database.connect() as connection:
        facts = type_facts(connection, of.values())
    assert {each: facts[of[each]].element_type for each in of} == {
        "e": None, "span": of["e"], "span_multirange": of["span"],
    }  # fmt: skip
