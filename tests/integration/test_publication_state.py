"""What the catalogue says of a publication, on a real server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fix_postgres import Database, new_database
from tests.in_soak import in_variants
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.guards.unfit import replica_identity
from walbridge.producer.guards.unfit.publication_faults import sends_by_order
from walbridge.producer.guards.unfit.replica_identity import partition_faults
from walbridge.producer.postgres import catalog
from walbridge.producer.postgres.connection import SqlConnection, connect_sql
from walbridge.producer.postgres.publications import publication
from walbridge.producer.postgres.publications.combined_publications import UNDER_OTHER_NAME, differs_only_in_columns
from walbridge.producer.postgres.publications.publication import next_xid, publication_state, snapshot_xmax
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings
from walbridge.schemas.settings_sections import Postgres


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


def test_xid_that_is_only_shown_is_not_taken(database: Database) -> None:
    with connect_sql(database.dsn, "test") as asking:
        shown = [snapshot_xmax(asking) for _ in range(2)]
        assert asking.execute("SELECT txid_current_if_assigned()").fetchone() == (None,)

    assert 0 < shown[0] <= shown[1]


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
        now = database.rows(
            "SELECT p.oid::int, r.oid || '@' || p.xmin FROM pg_publication p JOIN pg_publication_rel r ON true"
        )
        assert [(state.oids["p"], state.members[relation_id])] == now
    else:
        assert (state.oids, state.members) == ({}, {})


def _membership(database: Database, table: str = "t", name: str = "p") -> str | None:
    relation_id = database.value(f"SELECT '{table}'::regclass::oid::int")
    with connect_sql(database.dsn, "test") as asking:
        return publication_state(asking, (name,), [relation_id]).members.get(relation_id)


ALL = "insert, update, delete, truncate"
ALTERED_BACK = {
    "publish": f"ALTER PUBLICATION p SET (publish = 'insert'); ALTER PUBLICATION p SET (publish = '{ALL}')",
    "via root": "ALTER PUBLICATION p SET (publish_via_partition_root = true);"
    "ALTER PUBLICATION p SET (publish_via_partition_root = false)",
    "name": "ALTER PUBLICATION p RENAME TO q; ALTER PUBLICATION q RENAME TO p",
    "table": "ALTER PUBLICATION p DROP TABLE t; ALTER PUBLICATION p ADD TABLE t",
    "filter": "ALTER PUBLICATION p SET TABLE t WHERE (id > 5); ALTER PUBLICATION p SET TABLE t",
    "columns": "ALTER PUBLICATION p SET TABLE t (id); ALTER PUBLICATION p SET TABLE t",
}


@pytest.mark.parametrize("altered", ALTERED_BACK.values(), ids=ALTERED_BACK)
def test_membership_tells_of_a_publication_that_was_altered_and_altered_back(database: Database, altered: str) -> None:
    """I7: what was left out meanwhile shows nowhere else."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE PUBLICATION p FOR TABLE t")
    before = _membership(database)
    for statement in altered.split(";"):
        database.execute(statement)
    assert _membership(database) != before


KEPT = (
    "GRANT SELECT ON t TO PUBLIC",
    "TRUNCATE t",
    "ALTER TABLE t ADD COLUMN more int DEFAULT 1",
    "ALTER TABLE t ALTER v TYPE bigint",
    "ALTER TABLE t RENAME v TO w",
    "ANALYZE t",
    "VACUUM FULL t",
    "VACUUM FULL pg_attribute",
    "ALTER TABLE t DROP COLUMN more",
    "ALTER TABLE t RENAME id TO key",
)


@pytest.mark.parametrize("members", ["FOR ALL TABLES", "FOR TABLE t, p"])
@pytest.mark.parametrize("major", [in_variants(13), in_variants(15), 18])
def test_membership_tells_of_a_table_that_was_a_partition_of_a_published_root_for_a_while(
    postgres_version: Callable[[int], PostgresServer], major: int, members: str
) -> None:
    """I7: its changes came under the root's name meanwhile. Whatever else is done to a table is no doubt, though in
    the end each of its columns was altered."""
    with new_database(postgres_version(major)) as database:
        columns = "(id int PRIMARY KEY, v int)"
        database.execute(f"CREATE TABLE t {columns}; CREATE TABLE p {columns} PARTITION BY RANGE (id)")
        database.execute(f"CREATE PUBLICATION p {members} WITH (publish_via_partition_root = true)")
        before = _membership(database)
        database.execute("ALTER TABLE p ATTACH PARTITION t DEFAULT")
        assert _membership(database) == UNDER_OTHER_NAME
        database.execute("ALTER TABLE p DETACH PARTITION t")
        after = _membership(database)
        assert after not in (None, before)
        assert not differs_only_in_columns(str(before), str(after))
        for statement in KEPT:
            database.execute(statement)
            now = _membership(database)
            assert now == after or differs_only_in_columns(str(after), str(now)), statement
            after = now  # as it is remembered


def test_membership_tells_of_a_table_that_left_its_schema_or_its_parent_and_came_back(database: Database) -> None:
    """I7: the publication's own rows stay as they were."""
    database.execute(
        "CREATE SCHEMA s; CREATE SCHEMA other; CREATE TABLE s.t (id int PRIMARY KEY);"
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p DEFAULT;"
        "CREATE PUBLICATION of_schema FOR TABLES IN SCHEMA s; CREATE PUBLICATION of_parent FOR TABLE p"
    )
    of_schema, of_parent = _membership(database, "s.t", "of_schema"), _membership(database, "p1", "of_parent")
    database.execute("ALTER TABLE s.t SET SCHEMA other")
    database.execute("ALTER TABLE other.t SET SCHEMA s")
    database.execute("ALTER TABLE p DETACH PARTITION p1")
    database.execute("ALTER TABLE p ATTACH PARTITION p1 DEFAULT")
    assert _membership(database, "s.t", "of_schema") not in (None, of_schema)
    assert _membership(database, "p1", "of_parent") not in (None, of_parent)


@pytest.mark.parametrize("how", ["FOR ALL TABLES", "FOR TABLE t", "FOR TABLES IN SCHEMA public"])
def test_membership_is_not_touched_by_what_leaves_no_change_out(database: Database, how: str) -> None:
    """A copy of all tables is dear: neither vacuum nor the DDL of tables costs one, nor that of other publications."""
    database.execute(
        f"CREATE TABLE t (id int PRIMARY KEY, v int); CREATE PUBLICATION p {how}; CREATE PUBLICATION other FOR TABLE t"
    )
    before = _membership(database)
    assert before is not None
    for statement in (
        "ALTER PUBLICATION other SET (publish = 'insert')",
        "CREATE TABLE more (id int PRIMARY KEY, v int)",
        "ALTER TABLE t ADD COLUMN w int DEFAULT 7",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "CREATE INDEX ON t (v)",
        "COMMENT ON PUBLICATION p IS 'ours'",
        "VACUUM (FREEZE, ANALYZE)",
        "VACUUM FULL pg_publication",
        "VACUUM FULL pg_depend",
    ):
        database.execute(statement)
    assert _membership(database) == before


@pytest.mark.parametrize("major", [13, 14])
def test_tree_of_several_publications_is_refused_where_their_order_would_decide_under_which_name_it_comes(
    postgres_version: Callable[[int], PostgresServer], monkeypatch: pytest.MonkeyPatch, major: int
) -> None:
    """I4, I7. The servers of the tests have that mended, so only their catalogue is asked here."""
    settings = Settings(postgres=Postgres(publications=("a", "b")))

    def faults() -> list[OperatorError]:
        with connect_sql(database.dsn, "test") as asking:
            return list(partition_faults(asking, settings, catalog.published_tables(asking, ("a", "b"))))

    with new_database(postgres_version(major)) as database:
        database.execute(
            "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p DEFAULT;"
            "CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION b FOR TABLE p1, t;"
            "CREATE PUBLICATION a FOR TABLE p, t WITH (publish_via_partition_root = true)"
        )
        assert faults() == []
        monkeypatch.setattr(replica_identity, "sends_by_order", lambda version: True)
        (fault,) = faults()
        assert fault.what.startswith("publications a, b publish table public.p or partitions of it")
        assert 'ALTER PUBLICATION "b" DROP TABLE ...;' in fault.remedy
        database.execute('ALTER PUBLICATION "b" DROP TABLE p1')
        assert faults() == []


def test_order_of_publications_decides_before_13_7_and_14_3() -> None:
    versions = (120022, 130000, 130006, 130007, 140000, 140002, 140003, 150000)
    assert [each for each in versions if sends_by_order(each)] == [130000, 130006, 140000, 140002]
