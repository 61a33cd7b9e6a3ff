"""Real messages: what Postgres 18 sent for ``corpus.sql``, one in hexadecimal a line of ``corpus.hex``.

``python -m tests.producer.pgoutput.corpus`` records them anew on a server of its own;
``tests/integration/test_corpus.py`` checks that a server still sends such ones.
"""

from pathlib import Path
from typing import Any

import psycopg

from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.postgres.connection import connect_sql

_HERE = Path(__file__).parent
_PEEK = (
    "SELECT data FROM pg_logical_slot_peek_binary_changes('corpus_' || current_database(), NULL, NULL, "
    "'proto_version', '1', 'publication_names', 'corpus')"
)


def load() -> list[bytes]:
    """The recorded messages in the order they were sent."""
    return [bytes.fromhex(line) for line in (_HERE / "corpus.hex").read_text().splitlines()]


def record(connection: psycopg.Connection[Any]) -> list[bytes]:
    """Run ``corpus.sql`` in an empty database; its messages."""
    connection.execute("SET search_path = public")  # pinned to nothing, as the producer needs it
    tables, changes = (_HERE / "corpus.sql").read_text().split("-- changes\n")
    for statement in (*tables.split(";\n"), *changes.split(";\n")):
        connection.execute(statement.encode())  # each its own transaction
    return [data for (data,) in connection.execute(_PEEK.encode()).fetchall()]


def _main() -> None:
    with PostgresServer() as server, connect_sql(server.dsn()) as connection:
        messages = record(connection)
    (_HERE / "corpus.hex").write_text("".join(f"{message.hex()}\n" for message in messages))
    print(len(messages), "messages")


if __name__ == "__main__":
    _main()
