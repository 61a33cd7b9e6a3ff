"""What the catalogue says of columns that came, on a real server."""

from __future__ import annotations

from tests.fix_postgres import Database
from walbridge.producer.postgres.connection import connect_sql
from walbridge.producer.postgres.table_files import LISTS_SINCE, added_columns


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
