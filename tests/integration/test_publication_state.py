"""What the catalogue says of a publication, on a real server."""

from __future__ import annotations

from tests.fix_postgres import Database
from walbridge.producer.postgres.connection import connect_sql
from walbridge.producer.postgres.publication import next_xid, publication_state


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
        open_still = publication_state(asking, "p", [relation_id])
        writing.execute("COMMIT")
        ended = publication_state(asking, "p", [relation_id])

    assert open_still is not None
    assert ended is not None
    assert open_still.members == {}
    assert open_still.oldest_xid <= xid < above <= ended.oldest_xid
