"""The event triggers tell a table's columns after each command that alters them: numbers, names, older rows' values."""

from __future__ import annotations

from tests.fix_postgres import Database
from tests.walbridge.test_ddl_trigger import all_rows, install, oid, told_in
from walbridge.ddl_trigger_columns import TABLES_MAX
from walbridge.producer.postgres.connection import connect_sql
from walbridge.producer.postgres.told_rows import newest_rows
from walbridge.schemas.ddl_row import COLUMNS, TOLD_BY, TOLD_COLUMNS, DdlRow, ToldColumn, ToldColumns

__all__ = ["told_in"]
INT4, TEXT = 23, 25


def rows(database: Database) -> list[DdlRow]:
    """Of columns, oldest first."""
    return [each for each in all_rows(database) if each.event == COLUMNS]


def told(database: Database) -> list[ToldColumns]:
    return [each.told for each in rows(database) if each.told is not None]


def columns(database: Database) -> list[list[tuple[int, str, str | None]]]:
    """Number, name and older rows' value."""
    return [[(each.attnum, each.name, each.missing_value) for each in of.columns or ()] for of in told(database)]


def test_columns_are_told_after_each_command_that_alters_them(told_in: Database) -> None:
    told_in.execute("CREATE TABLE t (id int PRIMARY KEY, a int)")
    by = told_in.value(f"SELECT {TOLD_BY}")

    told_in.execute("ALTER TABLE t ADD b varchar(9) DEFAULT 'x'")
    told_in.execute("BEGIN; ALTER TABLE t DROP a; ALTER TABLE t RENAME b TO a; COMMIT")

    key, added = ToldColumn(1, "id", INT4, -1), ToldColumn(3, "b", 1043, 13, "x")
    assert told(told_in) == [
        ToldColumns(3, by, (key, ToldColumn(2, "a", INT4, -1), added), frozenset({3}), may_have_grown=True),
        ToldColumns(3, by, (key, added), frozenset({2})),
        ToldColumns(3, by, (key, ToldColumn(3, "a", 1043, 13, "x")), frozenset({2, 3})),
    ]
    assert {each.relation_id for each in rows(told_in)} == {oid(told_in, "t")}


def test_column_that_is_dropped_and_made_again_has_another_number(told_in: Database) -> None:
    told_in.execute("CREATE TABLE t (id int PRIMARY KEY, a int)")
    told_in.execute("ALTER TABLE t DROP a, ADD a int DEFAULT 7")
    assert columns(told_in) == [[(1, "id", None), (3, "a", "7")]]


def test_nothing_is_told_of_commands_that_alter_no_column_nor_of_a_table_that_is_new(told_in: Database) -> None:
    told_in.execute("CREATE TABLE t (id int PRIMARY KEY, a int)")
    told_in.execute("ALTER TABLE t ADD CHECK (a > 0); ALTER TABLE t RENAME TO u; ALTER TABLE u OWNER TO CURRENT_USER")
    told_in.execute("BEGIN; CREATE TABLE n (id int); ALTER TABLE n ADD a int; COMMIT")
    told_in.execute("CREATE TEMP TABLE z (id int); ALTER TABLE z ADD a int")
    assert not rows(told_in)


def test_columns_of_a_savepoint_that_is_kept_are_fresh_and_those_of_one_that_is_rolled_back_untold(
    told_in: Database,
) -> None:
    told_in.execute("CREATE TABLE t (id int)")
    with told_in.connect() as connection, connection.transaction():
        connection.execute("ALTER TABLE t ADD a int")
        with connection.transaction(force_rollback=True):
            connection.execute("ALTER TABLE t ADD never int")
        with connection.transaction():
            connection.execute("ALTER TABLE t ADD b int")
    told_in.execute("ALTER TABLE t ADD c int")
    assert [(each.count, each.fresh) for each in told(told_in)] == [
        (2, frozenset({2})),
        (3, frozenset({2, 3})),
        (4, frozenset({4})),
    ]


def test_partitions_and_heirs_are_told_with_the_table_that_was_altered(told_in: Database) -> None:
    """A partitioned table has the value of older rows that all its partitions have."""
    told_in.execute(
        "CREATE TABLE r (id int, v int) PARTITION BY LIST (id); CREATE TABLE r_1 (v int, x int, id int);"
        "ALTER TABLE r_1 DROP x; ALTER TABLE r ATTACH PARTITION r_1 FOR VALUES IN (1);"
        "CREATE TABLE p (id int); CREATE TABLE h (more int) INHERITS (p)"
    )
    told_in.execute("DELETE FROM walbridge.ddl_commands")
    told_in.execute("ALTER TABLE r ADD n int DEFAULT 7; ALTER TABLE p ADD n int DEFAULT 8")
    found = {each.relation_id: each.told for each in rows(told_in)}
    assert {each: [(c.attnum, c.missing_value) for c in of.columns or ()][-1] for each, of in found.items() if of} == {
        oid(told_in, "r"): (3, "7"),
        oid(told_in, "r_1"): (4, "7"),
        oid(told_in, "p"): (2, "8"),
        oid(told_in, "h"): (3, "8"),
    }


def test_columns_that_a_table_gets_by_its_type_are_told(told_in: Database) -> None:
    told_in.execute("CREATE TYPE k AS (id int, a int); CREATE TABLE t OF k; CREATE TABLE u OF k; CREATE TABLE v (b k)")
    told_in.execute("ALTER TYPE k ADD ATTRIBUTE b text CASCADE")
    told_in.execute("BEGIN; ALTER TABLE t NOT OF; ALTER TABLE t ALTER b SET DEFAULT 'x'; COMMIT")
    told_in.execute("CREATE TYPE e AS ENUM ('sad'); ALTER TYPE e ADD VALUE 'ok'; ALTER TYPE k OWNER TO CURRENT_USER")
    found = [(each.relation_id, each.told.count, each.told.fresh) for each in rows(told_in) if each.told is not None]
    t, u = oid(told_in, "t"), oid(told_in, "u")
    assert (sorted(found[:2]), found[2:]) == (
        [(t, 3, frozenset({3})), (u, 3, frozenset({3}))],
        [(t, 3, frozenset({3}))],
    )


def test_values_are_told_as_a_walsender_prints_them_whatever_the_session_has_set(told_in: Database) -> None:
    told_in.execute("CREATE TABLE t (id int)")
    told_in.execute(
        "SET datestyle = 'SQL, DMY'; SET intervalstyle = iso_8601; SET bytea_output = escape;"
        "SET timezone = 'Asia/Tokyo';"
        "SET extra_float_digits = 0; ALTER TABLE t ADD a timestamptz DEFAULT '2020-02-01 00:00+00',"
        "ADD b interval DEFAULT '1 day 2:00', ADD c bytea DEFAULT '\\x00ff', ADD d float8 DEFAULT 0.1::float8 + 0.2,"
        "ADD e int[] DEFAULT '{1,2}', ADD f box DEFAULT '(1,1),(0,0)', ADD g regclass DEFAULT 'pg_class'"
    )
    assert [value for _, _, value in columns(told_in)[0]] == [
        None, "2020-02-01 00:00:00+00", "1 day 02:00:00", "\\x00ff", "0.30000000000000004", "{1,2}", "(1,1),(0,0)",
        "pg_class",
    ]  # fmt: skip


def test_value_and_row_that_are_too_large_are_not_told(told_in: Database) -> None:
    told_in.execute("CREATE TABLE t (id int)")
    told_in.execute("ALTER TABLE t ADD a text DEFAULT repeat('x', 500000), ADD b text DEFAULT 'b'")
    many = ", ".join(f"ADD c{number} text DEFAULT repeat('x', 7000)" for number in range(40))
    told_in.execute(f"ALTER TABLE t {many}")
    first, second = told(told_in)
    assert [(each.missing_value, each.is_value_told) for each in first.columns or ()] == [
        (None, True), (None, False), ("b", True),
    ]  # fmt: skip
    assert (second.count, second.columns) == (43, None)


def test_columns_of_the_widest_table_are_told(told_in: Database) -> None:
    told_in.execute(f"CREATE TABLE t ({', '.join(f'column_{number} int' for number in range(1600))})")
    told_in.execute("ALTER TABLE t RENAME column_7 TO seven")
    (found,) = columns(told_in)
    assert len(found) == 1600


def test_what_follows_a_command_that_could_not_be_told_says_so_in_its_transaction(told_in: Database) -> None:
    told_in.execute("CREATE TABLE t (id int)")
    with told_in.connect() as connection:
        with connection.transaction():
            connection.execute("ALTER TABLE walbridge.ddl_commands ADD CONSTRAINT c CHECK (false) NOT VALID")
            connection.execute("ALTER TABLE t ADD a int")
            connection.execute("ALTER TABLE walbridge.ddl_commands DROP CONSTRAINT c")
            connection.execute("ALTER TABLE t ADD b int")
        connection.execute("ALTER TABLE t ADD c int")
    assert [(each.count, each.is_untold) for each in told(told_in) if each.count < 9] == [(3, True), (4, False)]


def test_transaction_that_does_not_see_what_others_altered_tells_no_columns(told_in: Database) -> None:
    """I8: it would tell a column that another one has replaced."""
    told_in.execute("CREATE TABLE t (id int, a int)")
    with told_in.connect() as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")
        told_in.execute("ALTER TABLE t DROP a, ADD a int")
        connection.execute("ALTER TABLE t ADD b int")
    _, *found = told(told_in)
    assert {(each.columns, each.is_untold) for each in found} == {(None, True)}


def test_time_of_the_trigger_is_another_one_after_it_was_disabled_or_its_publication_altered(told_in: Database) -> None:
    seen = set()
    for statement in (
        "SELECT 1",
        "ALTER EVENT TRIGGER walbridge_ddl_end DISABLE; ALTER EVENT TRIGGER walbridge_ddl_end ENABLE ALWAYS",
        "ALTER PUBLICATION walbridge_ddl DROP TABLE walbridge.ddl_commands",
        "ALTER PUBLICATION walbridge_ddl ADD TABLE walbridge.ddl_commands",
        "ALTER PUBLICATION walbridge_ddl SET (publish = 'insert, update')",
    ):
        told_in.execute(statement)
        seen.add(told_in.value(f"SELECT {TOLD_BY}"))
    assert len(seen) == 5


def test_any_role_reads_rows_about_columns_back_and_no_other_rows(told_in: Database) -> None:
    told_in.execute("CREATE TABLE t (id int); CREATE TABLE u (id int)")
    told_in.execute("INSERT INTO walbridge.ddl_commands (told) VALUES ('no json')")
    told_in.execute("ALTER TABLE t ADD a int; ALTER TABLE u ADD a int; ALTER TABLE t ADD b int")
    table = oid(told_in, "t")
    with told_in.connect() as connection:
        connection.execute("CREATE ROLE reader_of_columns")
        try:
            connection.execute("SET ROLE reader_of_columns")
            read = f"SELECT id, told FROM {TOLD_COLUMNS}(%s, %s, %s)".encode()
            (one, first), (other, second) = connection.execute(read, ([table], 0, 9)).fetchall()
            assert connection.execute(read, ([table], one, 1)).fetchall() == [(one, first)]
            assert connection.execute(read, ([table], one + 1, 9)).fetchall() == [(other, second)]
        finally:
            connection.execute("RESET ROLE; DROP ROLE reader_of_columns")
    assert '"columns"' in first


def test_newest_row_of_each_table_is_found_among_those_from_an_id_on(told_in: Database) -> None:
    told_in.execute("CREATE TABLE t (id int); CREATE TABLE u (id int); CREATE TABLE never (id int)")
    told_in.execute("ALTER TABLE t ADD a int; ALTER TABLE u ADD a int; ALTER TABLE t ADD b int")
    t, u, never = (oid(told_in, name) for name in ("t", "u", "never"))
    with connect_sql(told_in.dsn) as connection:
        found = newest_rows(connection, [t, u, never], 0) or {}
        assert found[t].row_id > found[u].row_id > found[never].row_id == 0
        later = newest_rows(connection, [t, u, never], found[t].row_id) or {}
    assert (later[t], later[u].row_id) == (found[t], 0)


def test_more_tables_below_than_the_bound_are_left_to_the_looks(database: Database) -> None:
    install(database)
    database.execute("CREATE TABLE p (id int)")
    database.execute(
        f"DO $$BEGIN FOR i IN 1..{TABLES_MAX + 5} LOOP EXECUTE 'CREATE TABLE h' || i || ' () INHERITS (p)'; "
        "END LOOP; END$$"
    )
    database.execute("ALTER TABLE p ADD a int")
    assert len(rows(database)) == TABLES_MAX
