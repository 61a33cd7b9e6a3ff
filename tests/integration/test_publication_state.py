"""What the catalogue says of a publication, on a real server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fix_postgres import Database
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection, connect_sql
from walbridge.producer.postgres.publications import publication
from walbridge.producer.postgres.publications.publication import next_xid, publication_state


def test_transaction_that_wrote_while_a_table_left_is_below_the_next_xid_and_keeps_the_oldest_back(
    database: Database,
) -> None:
    """I7: its changes of the table still come, though no transaction has ended since it began: xmax is not above it."""
    database.execute("CREATE TABLE t (id int); CREATE PUBLICATION p FOR TABLE t")
    (relation_id,) = database.rows("SELECT 't'::regclass::oid::int")[0]
    with database.connect() as leaving, database.connect() as writing, connect_sql(database.dsn, "test") as asking:
        leaving.execute("BEGIN")
        leaving.execute("ALTER PUBLICATION p DROP TABLE t")
        writing.execute("BEGIN")
        writing.execute("INSERT INTO t VALUES (1)")
        leaving.execute("COMMIT")
        (xid,) = writing.execute("SELECT txid_current()").fetchone() or (0,)

        above = next_xid(asking)
        open_still = publication_state(asking, ("p",), [relation_id])
        writing.execute("COMMIT")
        ended = publication_state(asking, ("p",), [relation_id])

    assert open_still.members == {}
    assert open_still.oldest_xid <= xid < above <= ended.oldest_xid


@pytest.mark.parametrize("made_again", [True, False])
def test_publication_that_is_dropped_while_it_is_looked_at_is_told_as_one_or_the_other(
    database: Database, monkeypatch: pytest.MonkeyPatch, made_again: bool
) -> None:
    """I7: members of the new one beside the oid of the old one would be taken for tables that left and came back."""
    database.execute("CREATE TABLE t (id int); CREATE PUBLICATION p FOR TABLE t")
    (relation_id,) = database.rows("SELECT 't'::regclass::oid::int")[0]
    change = "DROP PUBLICATION p" + ("; CREATE PUBLICATION p FOR TABLE t" if made_again else "")
    asked: list[str] = []

    def rows_of(connection: SqlConnection, query: str, *arguments: Any) -> list[Any]:
        if asked and change not in asked:
            asked.append(change)
            database.execute(change)
        asked.append(query)
        return catalog.rows_of(connection, query, *arguments)

    monkeypatch.setattr(publication, "rows_of", rows_of)
    with connect_sql(database.dsn, "test") as asking:
        state = publication_state(asking, ("p",), [relation_id])

    assert change in asked
    if made_again:
        now = database.rows("SELECT p.oid::int, r.oid::text FROM pg_publication p JOIN pg_publication_rel r ON true")
        assert [(state.oids["p"], state.members[relation_id])] == now
    else:
        assert (state.oids, state.members) == ({}, {})
