"""Every server version takes the options that it is asked for, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import psycopg
import pytest

from tests.fix_postgres import Database, new_database
from tests.postgres_versions import MAJORS
from tests.wait import wait_until
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.pgoutput.frames import XLOG_DATA_HEADER_BYTES
from walbridge.producer.pgoutput.options import StreamWishes, start_options
from walbridge.producer.postgres.connection import connect_walsender
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.producer.postgres.requirements import stream_options
from walbridge.producer.postgres.slots.slot import create
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.settings import Settings

WISHES: dict[str, StreamWishes] = {
    "nothing": StreamWishes(),
    "binary": StreamWishes(binary=True),
    "messages": StreamWishes(messages=True),
    "streaming": StreamWishes(streaming="on"),
    "parallel": StreamWishes(streaming="parallel"),
    "two_phase": StreamWishes(two_phase=True),
    "origin": StreamWishes(origin="none"),
    "all with parallel": StreamWishes(True, True, "parallel", True, "none"),
    "all with streaming": StreamWishes(True, True, "on", True),
    "all of 14": StreamWishes(True, True, "on"),
}
NEWEST = 180000


@pytest.fixture(params=MAJORS)
def versioned(postgres_version: Callable[[int], PostgresServer], request: pytest.FixtureRequest) -> Iterator[Database]:
    """A fresh database on a server of each version, with a publication of an odd name."""
    with new_database(postgres_version(request.param)) as database:
        database.execute('CREATE TABLE t (a int PRIMARY KEY); CREATE PUBLICATION "My ""pub"", x" FOR TABLE t')
        yield database


def _refusal(database: Database, options: Mapping[str, str]) -> str | None:
    """What the server says to these options, with a change to decode; None when it takes them."""
    slot = f"s_{database.name}"
    pairs = [part for pair in options.items() for part in pair]
    with database.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
        connection.execute("INSERT INTO t VALUES (1)")
        try:
            query = "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, VARIADIC %s)"
            found = connection.execute(query.encode(), (slot, pairs)).fetchall()
            assert b"I" in [data[:1] for (data,) in found]
        except psycopg.Error as error:
            return error.sqlstate
        else:
            return None
        finally:
            connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
            connection.execute("DELETE FROM t")


@pytest.mark.feature("options: all that the server has, and no more")
def test_server_takes_every_wish_that_is_not_refused_and_would_refuse_the_others_itself(versioned: Database) -> None:
    """Neither an option too many, nor a refusal without need."""
    with versioned.connect() as connection:
        version = connection.info.server_version
    publication = ['My "pub", x']
    ours, theirs = {}, {}
    for name, wishes in WISHES.items():
        theirs[name] = _refusal(versioned, start_options(publication, NEWEST, wishes)) is None
        try:
            assert _refusal(versioned, start_options(publication, version, wishes)) is None
            ours[name] = True
        except OperatorError:
            ours[name] = False

    assert theirs == ours


def test_stream_of_every_version_begins_and_brings_a_change(versioned: Database) -> None:
    settings = Settings.model_validate({"name": "p", "postgres": {"publication": 'My "pub", x'}})
    walsender = connect_walsender(versioned.dsn, "test")
    slot = f"s_{versioned.name}"
    point = create(walsender, slot, lambda: None).consistent_point
    with ReplicationStream(walsender, slot, 1_000) as stream:
        stream.start(point, stream_options(settings, walsender.server_version))
        versioned.execute("INSERT INTO t VALUES (1)")
        frames: list[bytes] = []

        def is_committed() -> bool:
            frame = stream.read()
            if frame is None:
                stream.wait(0.1)
            elif frame[:1] == b"w":
                frames.append(frame[XLOG_DATA_HEADER_BYTES:])
            return bool(frames) and frames[-1][:1] == b"C"

        wait_until(is_committed, "a transaction")

    assert b"".join(frame[:1] for frame in frames) == b"BRIC"
