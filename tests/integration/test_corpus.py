"""The recorded messages that the fuzz damages are such as this server sends."""

from tests.fix_postgres import Database
from tests.producer.pgoutput.corpus import load, record
from walbridge.producer.pgoutput.decoder import decode_message
from walbridge.producer.postgres.connection import connect_sql


def kinds(messages: list[bytes]) -> list[str]:
    return [type(decode_message(message)).__name__ for message in messages]


def test_server_still_sends_what_the_corpus_holds(database: Database) -> None:
    with connect_sql(database.dsn) as connection:
        sent = record(connection)

    assert kinds(sent) == kinds(load())
    # LSNs, times and oids differ from run to run; the new rows of inserts do not.
    inserts = [[message[6:] for message in messages if message[:1] == b"I"] for messages in (sent, load())]
    assert inserts[0] == inserts[1]
