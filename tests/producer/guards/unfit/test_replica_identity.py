"""Replica identities that do not tell rows apart."""

from __future__ import annotations

import pytest

from tests.fix_postgres import Database
from walbridge.producer.guards.unfit.replica_identity import refuse_unfit_identities
from walbridge.producer.postgres.catalog import published_tables
from walbridge.producer.postgres.connection import connect_sql
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings


def test_identity_whose_columns_may_hold_nulls_is_refused_until_they_are_validated(database: Database) -> None:
    """I2: Postgres 18 takes a NOT NULL that is not valid yet for enough, and its index takes any number of nulls."""
    database.execute(
        'CREATE TABLE "T" (id int, "B" int); INSERT INTO "T" VALUES (1), (2); CREATE UNIQUE INDEX i ON "T" ("B");'
        'ALTER TABLE "T" ADD CONSTRAINT "N" NOT NULL "B" NOT VALID; ALTER TABLE "T" REPLICA IDENTITY USING INDEX i;'
        "CREATE PUBLICATION walbridge FOR ALL TABLES"
    )
    with connect_sql(database.dsn) as connection:
        tables = published_tables(connection, ("walbridge",))
        with pytest.raises(OperatorError, match=r"column B .* public\.T .* N is not validated") as refused:
            refuse_unfit_identities(connection, Settings(), tables)
        database.execute('DELETE FROM "T" WHERE "B" IS NULL')
        database.execute(refused.value.remedy.partition(": ")[2].partition(" or ")[0])
        refuse_unfit_identities(connection, Settings(), tables)
