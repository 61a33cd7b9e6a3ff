"""Records what servers of each major version send, one transcript for each set of options.

``python -m tests.producer.pgoutput.record [major ...]`` writes ``tests/data/pgoutput``;
``tests/integration/test_recorded.py`` records anew and compares.

In: a server. Out: the payloads of each scenario, as pgoutput made them: through
pg_logical_slot_peek_binary_changes, which asks the same plugin with the same options.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.fix_postgres import OF_VERSION
from tests.postgres_versions import MAJORS, PostgresOfVersion
from tests.producer.pgoutput.transcripts import FOLDER, store
from walbridge.producer.pgoutput.options import StreamWishes, start_options

TABLES = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE keyed (id int PRIMARY KEY, note text, feeling mood, big text);
ALTER TABLE keyed ALTER big SET STORAGE EXTERNAL;
CREATE TABLE whole (id int, note text);
ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE typed (id int PRIMARY KEY, amount numeric, at timestamptz, grants aclitem);
CREATE TABLE unpublished (id int, pad text);
CREATE PUBLICATION recorded FOR TABLE keyed, whole, typed;
SELECT pg_replication_origin_create('elsewhere') WHERE pg_replication_origin_oid('elsewhere') IS NULL;
"""

PLAIN = """
INSERT INTO keyed VALUES (1, 'one', 'ok', NULL), (2, '', NULL, repeat('x', 2100));
UPDATE keyed SET note = 'é😀' WHERE id = 2;
UPDATE keyed SET id = 3 WHERE id = 1;
DELETE FROM keyed WHERE id = 3;
INSERT INTO whole VALUES (1, 'a');
UPDATE whole SET note = NULL;
DELETE FROM whole;
INSERT INTO unpublished VALUES (1);
BEGIN;
SELECT pg_replication_origin_session_setup('elsewhere');
SELECT pg_replication_origin_xact_setup('0/ABCD', '2024-05-06 07:08:09+00');
INSERT INTO whole VALUES (2, 'from elsewhere');
COMMIT;
SELECT pg_replication_origin_session_reset();
TRUNCATE keyed, whole RESTART IDENTITY CASCADE;
TRUNCATE typed;
"""
BINARY = """
INSERT INTO typed VALUES (1, -12.50, '2024-05-06 07:08:09.1+00', 'postgres=r/postgres'), (2, 'NaN', 'infinity', NULL);
UPDATE typed SET id = 3 WHERE id = 2;
DELETE FROM typed WHERE id = 1;
"""
MESSAGES = """
BEGIN;
SELECT pg_logical_emit_message(true, 'within', 'é😀');
INSERT INTO whole VALUES (1, 'a');
SELECT pg_logical_emit_message(false, 'at once', '\\x00ff'::bytea);
COMMIT;
SELECT pg_logical_emit_message(true, '', '');
BEGIN;
SELECT pg_logical_emit_message(true, 'rolled back', 'x');
SELECT pg_logical_emit_message(false, 'stays', 'x');
ROLLBACK;
INSERT INTO whole VALUES (2, 'b');
"""
ABORTED = """
BEGIN;
INSERT INTO whole VALUES (1, 'kept');
SAVEPOINT a;
INSERT INTO whole VALUES (2, 'rolled back');
{many};
ROLLBACK TO a;
INSERT INTO whole VALUES (3, 'kept');
COMMIT;
"""
# {more} is what makes the server stream: {many}, or nothing where each change can be streamed at once.
STREAMED = """
BEGIN;
INSERT INTO keyed VALUES (1, 'one', 'ok', NULL);
{more};
SAVEPOINT a;
INSERT INTO keyed VALUES (2, 'rolled back', NULL, NULL);
{more};
ROLLBACK TO a;
SAVEPOINT b;
UPDATE keyed SET id = 3 WHERE id = 1;
INSERT INTO whole VALUES (1, 'a');
RELEASE b;
SELECT pg_logical_emit_message(true, 'in a stream', 'x');
{more};
DELETE FROM whole;
TRUNCATE keyed, whole;
COMMIT;
BEGIN;
INSERT INTO whole VALUES (2, 'never');
{more};
INSERT INTO whole VALUES (3, 'never');
ROLLBACK;
SELECT pg_replication_origin_session_setup('elsewhere');
BEGIN;
INSERT INTO whole VALUES (4, 'from elsewhere');
{more};
COMMIT;
SELECT pg_replication_origin_session_reset();
INSERT INTO whole VALUES (5, 'not streamed');
"""
PREPARED = """
BEGIN;
INSERT INTO whole VALUES (1, 'a');
SAVEPOINT a;
INSERT INTO whole VALUES (2, 'rolled back');
ROLLBACK TO a;
PREPARE TRANSACTION 'one é';
INSERT INTO whole VALUES (3, 'between');
COMMIT PREPARED 'one é';
BEGIN;
INSERT INTO whole VALUES (4, 'never');
PREPARE TRANSACTION '';
ROLLBACK PREPARED '';
BEGIN;
INSERT INTO unpublished VALUES (1);
PREPARE TRANSACTION 'of nothing published';
COMMIT PREPARED 'of nothing published';
"""
STREAM_PREPARED = """
BEGIN;
INSERT INTO whole VALUES (1, 'a');
{more};
PREPARE TRANSACTION 'one é';
COMMIT PREPARED 'one é';
BEGIN;
INSERT INTO whole VALUES (2, 'never');
{more};
PREPARE TRANSACTION 'two';
ROLLBACK PREPARED 'two';
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A script, and how it is asked for."""

    oldest: int
    script: str
    wishes: StreamWishes


SCENARIOS: Mapping[str, Scenario] = {
    "plain": Scenario(12, PLAIN, StreamWishes()),
    "aborted": Scenario(13, ABORTED, StreamWishes()),
    "binary": Scenario(14, BINARY, StreamWishes(binary=True)),
    "messages": Scenario(14, MESSAGES, StreamWishes(messages=True)),
    "streamed": Scenario(14, STREAMED, StreamWishes(messages=True, streaming="on")),
    "parallel": Scenario(16, STREAMED, StreamWishes(messages=True, streaming="parallel")),
    "prepared": Scenario(15, PREPARED, StreamWishes(two_phase=True)),
    "stream_prepared": Scenario(15, STREAM_PREPARED, StreamWishes(streaming="on", two_phase=True)),
}


def scenarios_of(major: int) -> list[str]:
    """Names of what a server of this version can be asked for."""
    return [name for name, scenario in SCENARIOS.items() if major >= scenario.oldest]


def record(connection: psycopg.Connection[Any], name: str) -> list[bytes]:
    """Run a scenario in a database that holds ``TABLES``; its messages."""
    scenario = SCENARIOS[name]
    version = connection.info.server_version
    slot = f"{name}_{connection.info.dbname}"
    connection.execute("TRUNCATE keyed, whole, typed, unpublished")
    two_phase = ", false, true" if scenario.wishes.two_phase else ""
    connection.execute(f"SELECT pg_create_logical_replication_slot(%s, 'pgoutput'{two_phase})".encode(), (slot,))
    try:
        is_immediate = version >= 160000 and scenario.wishes.streaming != "off"
        more = "" if is_immediate else "{many};\n"
        for statement in scenario.script.strip().replace("{more};\n", more).split(";\n"):
            connection.execute(statement.replace("{many}", _MANY).encode())
        return _peek(connection, slot, is_immediate, start_options(["recorded"], version, scenario.wishes))
    finally:
        connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))


_MANY = "INSERT INTO unpublished SELECT n, repeat('x', 100) FROM generate_series(1, 500) n"
"""More than the decoder may hold, and sent to nobody."""


def _peek(
    connection: psycopg.Connection[Any], slot: str, is_immediate: bool, options: Mapping[str, str]
) -> list[bytes]:
    # In a session of its own, as a walsender: what relations it has announced is kept in one.
    with psycopg.connect(connection.info.dsn, autocommit=True) as session:
        if is_immediate:
            session.execute("SET debug_logical_replication_streaming = immediate")
        elif session.info.server_version >= 130000:
            session.execute("SET logical_decoding_work_mem = '64kB'")
        query = "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, VARIADIC %s)"
        pairs = [part for pair in options.items() for part in pair]
        return [data for (data,) in session.execute(query.encode(), (slot, pairs))]


def _main(majors: list[int]) -> None:
    for major in majors:
        with (
            PostgresOfVersion(major, OF_VERSION) as server,
            psycopg.connect(server.dsn(), autocommit=True) as connection,
        ):
            connection.execute(TABLES.encode())
            for name in scenarios_of(major):
                messages = record(connection, name)
                store(FOLDER / str(major) / f"{name}.jsonl", messages)
                print(f"{major} {name}: {len(messages)} messages")


if __name__ == "__main__":
    _main([int(argument) for argument in sys.argv[1:]] or list(MAJORS))
