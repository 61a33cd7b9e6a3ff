"""The catalogue tells of a column whether it was added with its type, or given that type by a later command (I8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fix_postgres import Database, new_database
from tests.in_soak import in_soak, in_variants
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.postgres.storage.used_types import used_types

ADDED = {
    "plain": "ALTER TABLE t ADD c e",
    "with a value": "ALTER TABLE t ADD c e DEFAULT 'x'",
    "with others": "ALTER TABLE t ADD b e NOT NULL DEFAULT 'y', ADD c e DEFAULT 'x', ADD d int",
    "and indexed": "ALTER TABLE t ADD c e UNIQUE; CREATE INDEX ON t (c)",
}
AGAIN = {
    "again": "ALTER TABLE t ADD c e; ALTER TABLE t ALTER c TYPE e",
    "again, with a value": "ALTER TABLE t ADD c e DEFAULT 'x'; ALTER TABLE t ALTER c TYPE e",
    "as a domain": "ALTER TABLE t ADD c e; ALTER TABLE t ALTER c TYPE of_e",
    "beside others": "ALTER TABLE t ADD c e; ALTER TABLE t ALTER c TYPE e, ALTER c SET DEFAULT 'y', ADD d int",
}
HIDDEN = {"not null since": "ALTER TABLE t ADD c e; ALTER TABLE t ALTER c SET NOT NULL"}
"""The column's row does not tell any more."""


@pytest.mark.parametrize("act", [*ADDED, *AGAIN, *HIDDEN])
@pytest.mark.parametrize("major", [in_soak(12), in_variants(14), 18])
def test_column_that_was_added_with_its_type_is_told_from_one_that_got_it_again(
    postgres_version: Callable[[int], PostgresServer], major: int, act: str
) -> None:
    with new_database(postgres_version(major)) as database:
        database.execute("CREATE TYPE e AS ENUM ('x', 'y'); CREATE DOMAIN of_e AS e; CREATE TABLE t (id int)")
        database.execute((ADDED | AGAIN | HIDDEN)[act])
        assert is_first(database) is (act in ADDED)


def is_first(database: Database) -> bool:
    relation = database.value("SELECT 't'::regclass::oid::bigint")
    with database.connect() as connection:
        found = {each.column.is_first for each in used_types(connection, [relation], "none")}
    (is_first,) = found
    return is_first
