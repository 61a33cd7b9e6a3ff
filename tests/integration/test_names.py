"""Names as Postgres allows them."""

from __future__ import annotations

from psycopg import sql

from tests.fix_producer import ProducerUnderTest
from walbridge.schemas.topics import data_topic

NAMES = [
    ("public", "Order Items"),
    ("public", 'quote"d'),
    ("public", "dot.ted"),
    ("public", "x" * 63),
    ("Sales.EU", "naïve 表 😀"),
    ("public", "T"),
    ("public", "t"),
    ("public", "{braces} %s \\n"),
    ("public", "tab\tand\nline"),
]
PUBLICATION = 'pub "x", it\'s \\y'
COLUMNS = ["id", "ID", "two words", 'q"uote', "dot.ted", "naïve", "_walbridge", "1st", "{x}", "back\\slash", "%s"]


def test_odd_names_reach_readers_unchanged(producer: ProducerUnderTest) -> None:
    with producer.database.connect() as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier("Sales.EU")))
        for namespace, name in NAMES:
            columns = sql.SQL(", ").join(sql.SQL("{} text").format(sql.Identifier(each)) for each in COLUMNS[1:])
            table = sql.Identifier(namespace, name)
            connection.execute(sql.SQL("CREATE TABLE {} (id int PRIMARY KEY, {})").format(table, columns))
            connection.execute(sql.SQL("INSERT INTO {} VALUES (1, 'x')").format(table))
        producer.publish(*(sql.Identifier(*each).as_string(connection) for each in NAMES), name=PUBLICATION)
        producer.settings["postgres"] = {"publication": PUBLICATION}
        producer.start_streaming()
        for namespace, name in NAMES:
            table = sql.Identifier(namespace, name)
            connection.execute(
                sql.SQL('INSERT INTO {} (id, "ID", "q""uote") VALUES (2, {name}, {name})').format(
                    table, name=sql.Literal(name)
                )
            )
    replayed = producer.check_equal()
    assert {(r.table.namespace, r.table.name) for r in replayed} == set(NAMES)
    assert {r.topic for r in replayed} == {data_topic(producer.name, *each) for each in NAMES}
    assert all([column.name for column in r.table.columns] == COLUMNS for r in replayed)
