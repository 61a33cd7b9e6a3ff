"""What the copy takes a table to be is what the stream announces it to be, on every version."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fix_postgres import Database, new_database
from tests.postgres_versions import MAJORS
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.pgoutput.decoder import decode_message
from walbridge.producer.pgoutput.messages import Relation
from walbridge.producer.postgres.catalog import published_tables, table_facts
from walbridge.producer.postgres.connection import connect_sql
from walbridge.producer.relations.table_description import announced

TABLES = {
    "generated": "(id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED, v text)",
    "included": "(v text, id int, PRIMARY KEY (id) INCLUDE (v))",
    "by_index": "(a int NOT NULL, b int NOT NULL, v text, UNIQUE (b, a) INCLUDE (v))",
    "keyless": "(a int, b numeric(9,2), c varchar(7))",
    "whole": "(id int PRIMARY KEY, a text)",
    "nothing": "(id int PRIMARY KEY, a text)",
    "two_keys": "(a int, v text, b int, PRIMARY KEY (b, a))",
    "later_key": "(id int PRIMARY KEY DEFERRABLE, v text)",
    '"Odd ""name"""': '("Id" int PRIMARY KEY, " " text)',
    "dropped": "(id int PRIMARY KEY, gone int, v text)",
}
ROWS = {
    "included": "(id) VALUES (1)",
    "by_index": "(a, b) VALUES (1, 1)",
    "two_keys": "(a, b) VALUES (1, 1)",
}
ALTERED = """
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_b_a_v_key;
ALTER TABLE whole REPLICA IDENTITY FULL;
ALTER TABLE nothing REPLICA IDENTITY NOTHING;
ALTER TABLE dropped DROP COLUMN gone;
"""


@pytest.fixture(params=MAJORS)
def server(postgres_version: Callable[[int], PostgresServer], request: pytest.FixtureRequest) -> PostgresServer:
    return postgres_version(request.param)


def _differences(database: Database, tables: list[str]) -> list[tuple[Relation, Relation]]:
    """Relations as the catalogue foretold them beside those that came, where they are not equal."""
    slot = f"s_{database.name}"
    with connect_sql(database.dsn) as connection:
        foretold = {}
        for table in published_tables(connection, ("pub",)):
            facts = table_facts(connection, table.relation_id)
            assert facts is not None
            foretold[table.relation_id] = announced(table, facts)
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
        for name in tables:
            connection.execute(f"INSERT INTO public.{name} {ROWS.get(name, 'VALUES (1)')}".encode())
        query = "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, 'proto_version', '1', "
        found = connection.execute(f"{query} 'publication_names', 'pub')".encode(), (slot,)).fetchall()
    came = [message for (data,) in found if isinstance(message := decode_message(data), Relation)]
    assert {relation.relation_id for relation in came} == set(foretold)
    return [(foretold[each.relation_id], each) for each in came if foretold[each.relation_id] != each]


def test_relation_of_the_copy_is_the_one_that_the_stream_announces(server: PostgresServer) -> None:
    with new_database(server) as database:
        database.execute("".join(f"CREATE TABLE {name} {columns};" for name, columns in TABLES.items()) + ALTERED)
        database.execute(f"CREATE PUBLICATION pub FOR TABLE {', '.join(TABLES)}")
        assert _differences(database, list(TABLES)) == []


@pytest.mark.feature("column lists")
@pytest.mark.parametrize("server", [15, 16, 17, 18], indirect=True)
def test_column_list_of_the_copy_is_that_of_the_stream(server: PostgresServer) -> None:
    lists = {"included": "id", "two_keys": "b, v, a", "whole": "a, id", "generated": "id, v", "dropped": "v, id"}
    with new_database(server) as database:
        database.execute("".join(f"CREATE TABLE {name} {TABLES[name]};" for name in lists) + "".join(
            line for line in ALTERED.splitlines() if "whole" in line or "dropped" in line
        ))  # fmt: skip
        database.execute(f"CREATE PUBLICATION pub FOR TABLE {', '.join(f'{n} ({c})' for n, c in lists.items())}")
        assert _differences(database, list(lists)) == []


@pytest.mark.feature("generated columns")
@pytest.mark.parametrize("server", [18], indirect=True)
@pytest.mark.parametrize(
    ("published", "options"),
    [
        ("g", "WITH (publish_generated_columns = stored)"),
        ("g", ""),
        ("g (id, stored)", ""),
        ("g (id, stored)", "WITH (publish_generated_columns = stored)"),
        ("g (id, v)", "WITH (publish_generated_columns = stored)"),
    ],
)
def test_generated_columns_are_copied_where_they_are_streamed(
    server: PostgresServer, published: str, options: str
) -> None:
    """Stored ones where they are named or asked for; virtual ones never."""
    generated = "stored int GENERATED ALWAYS AS (id * 2) STORED, computed int GENERATED ALWAYS AS (id + 1)"
    columns = f"id int PRIMARY KEY, {generated}, v text"
    with new_database(server) as database:
        database.execute(f"CREATE TABLE g ({columns}); CREATE PUBLICATION pub FOR TABLE {published} {options}")
        assert _differences(database, ["g"]) == []
