"""What the catalogue says of columns that came, on a real server."""

from __future__ import annotations

from tests.fix_postgres import Database
from walbridge.producer.postgres.connection import connect_sql
from walbridge.producer.postgres.storage.table_files import (
    GENERATED_SINCE,
    LISTS_SINCE,
    added_columns,
    plain_columns,
    table_storages,
)


def test_column_that_came_is_told_unless_a_column_list_leaves_it_out(database: Database) -> None:
    """No version ever tells what older rows have in it, so nothing of it is waited for, and no rewrite costs a copy."""
    database.execute("CREATE TABLE whole (id int PRIMARY KEY); CREATE TABLE part (id int PRIMARY KEY, a int)")
    with database.connect() as connection:
        has_lists = connection.info.server_version >= LISTS_SINCE
    database.execute(f"CREATE PUBLICATION ours FOR TABLE whole, part {'(id, a)' if has_lists else ''}")
    database.execute("CREATE PUBLICATION other FOR TABLE whole")
    for name in ("whole", "part"):
        database.execute(f"ALTER TABLE {name} ADD b int DEFAULT 5, ADD c int")
    (whole, part) = (database.value(f"SELECT '{name}'::regclass::oid") for name in ("whole", "part"))

    with connect_sql(database.dsn) as connection:
        told = {
            names: [(each.relation_id, each.name, each.value) for each in found]
            for names in (("ours",), ("other", "ours"), ("other",))
            for found in [added_columns(connection, {whole: 1, part: 2}, names)]
        }
    of_whole, of_part = ([(each, "b", "5"), (each, "c", None)] for each in (whole, part))
    ours = of_whole if has_lists else of_whole + of_part
    assert {names: sorted(each) for names, each in told.items()} == {
        ("ours",): sorted(ours),
        ("other", "ours"): sorted(ours),
        ("other",): sorted(of_whole + of_part),
    }


def test_generated_columns_are_withheld_unless_they_are_published(database: Database) -> None:
    """What a column list leaves out stays unpublished, whatever becomes of its expression."""
    with connect_sql(database.dsn) as connection:
        version = connection.info.server_version
    column = "int GENERATED ALWAYS AS (a * 2) STORED"
    for name in ("whole", "part", "named"):
        database.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, a int, gone int, b {column}, c {column})")
        database.execute(f"ALTER TABLE {name} DROP gone")
    has_lists, can_publish = version >= LISTS_SINCE, version >= GENERATED_SINCE
    part, named = "part (id, a)" if has_lists else "part", "named (id, a, b)" if can_publish else "named"
    database.execute(f"CREATE PUBLICATION ours FOR TABLE whole, {part}, {named}")
    if can_publish:
        database.execute("CREATE PUBLICATION stored FOR TABLE whole WITH (publish_generated_columns = stored)")
        database.execute("ALTER TABLE whole ADD d int GENERATED ALWAYS AS (a * 3) VIRTUAL")
    ids = {name: database.value(f"SELECT '{name}'::regclass::oid") for name in ("whole", "part", "named")}
    virtual = {6} if can_publish else set()

    with connect_sql(database.dsn) as connection:

        def withheld(*publications: str) -> dict[str, set[int]]:
            found = table_storages(connection, ids.values(), publications)
            return {name: {*found[each].withheld} for name, each in ids.items()}

        wanted = {"whole": {4, 5} | virtual, "part": {4, 5}, "named": {5} if can_publish else {4, 5}}
        assert withheld("ours") == wanted
        if can_publish:
            assert withheld("stored")["whole"] == virtual
            assert withheld("ours", "stored") == wanted

        def plain() -> set[str]:
            there = plain_columns(connection, dict.fromkeys(ids.values(), (3, 4, 5)), ("ours",))
            return {name for name, each in ids.items() if each in there}

        assert plain() == set()
        for name in ids:
            database.execute(f"ALTER TABLE {name} ALTER b DROP EXPRESSION, DROP c")
        assert plain() == ({"whole", "named"} if has_lists else {*ids})
