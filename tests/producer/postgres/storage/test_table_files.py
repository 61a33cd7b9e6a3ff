"""What the catalogue says of columns and partitions that came, on a real server."""

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


ROOTS = (
    "id int, v text",
    "id int NOT NULL DEFAULT 1, v int NOT NULL DEFAULT 2, PRIMARY KEY (id)",
    "id serial, v text DEFAULT 'x', CHECK (id > 0)",
)
MADE = (
    "CREATE TABLE {0}a PARTITION OF {0} FOR VALUES FROM (1) TO (10)",
    "CREATE TABLE {0}b PARTITION OF {0} (v DEFAULT 3) FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE {0}c PARTITION OF {0} FOR VALUES FROM (20) TO (30) PARTITION BY RANGE (id)",
)
ATTACHED = (
    "CREATE TABLE {0}s (LIKE {0} INCLUDING ALL); ALTER TABLE {0} ATTACH PARTITION {0}s FOR VALUES FROM (30) TO (40)",
    "CREATE TABLE {0}t (junk int, LIKE {0} INCLUDING ALL); ALTER TABLE {0}t DROP junk;"
    "ALTER TABLE {0} ATTACH PARTITION {0}t FOR VALUES FROM (40) TO (50); ALTER TABLE {0}t ALTER v SET DEFAULT 7",
    "CREATE TABLE {0}u (LIKE {0} INCLUDING ALL); ALTER TABLE {0} ATTACH PARTITION {0}u FOR VALUES FROM (50) TO (60)",
)
TAKEN_BACK = "BEGIN; ALTER TABLE {0}u ALTER v SET DEFAULT 7, ALTER id SET DEFAULT 7; ROLLBACK"


def test_partition_that_was_made_as_one_is_told_from_one_that_was_attached(database: Database) -> None:
    """I8: that one may have brought rows, though it was made in the same transaction; this one never costs a copy,
    whatever its columns default to."""
    roots = [*ROOTS]
    with database.connect() as connection:
        if connection.info.server_version >= 170_000:
            roots.append("id int GENERATED ALWAYS AS IDENTITY, v int NOT NULL DEFAULT 2, PRIMARY KEY (id)")
    born = set()
    for number, columns in enumerate(roots):
        root = f"r{number}"
        database.execute(f"CREATE TABLE {root} ({columns}) PARTITION BY RANGE (id)")
        attached = [] if "IDENTITY" in columns else ATTACHED
        for statement in (*MADE, *attached):
            database.execute(statement.format(root))
        if attached:
            database.execute(TAKEN_BACK.format(root))
        oid = database.value(f"SELECT '{root}'::regclass::oid::int")
        with connect_sql(database.dsn) as connection:
            files = table_storages(connection, [oid], ()).pop(oid).files
        born |= {
            database.value(f"SELECT {each.relation_id}::regclass::text")
            for each in files
            if each.was_created_as_partition
        }
    assert born == {f"r{number}{each}" for number in range(len(roots)) for each in "abc"}
