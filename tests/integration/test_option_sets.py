"""The same WAL says the same under every set of options, on every version that has them.

The workloads run once a server, and each set of options drains a slot of its own from the walsender;
its messages are put together as ``committed.py`` says and compared with those of a session without
options, and with the tables.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import pytest

from tests.fix_postgres import Database, new_database
from tests.integration.both_ways import wait_until_free
from tests.integration.workloads import END, create_tables, published_queries, run_workloads
from tests.postgres_versions import MAJORS
from tests.producer.pgoutput.committed import Event, Reader, Transaction
from tests.producer.pgoutput.frames import XLogData, decode_frame
from walbridge.embedded.postgres import PostgresServer
from walbridge.producer.pgoutput.messages import Unsent
from walbridge.producer.pgoutput.options import StreamWishes, start_options
from walbridge.producer.postgres.connection import connect_walsender, walsender_query
from walbridge.producer.postgres.replication_stream import ReplicationStream
from walbridge.schemas.errors import OperatorError
from walbridge.schemas.position import Lsn

DRAINED_S = 60.0
SAME = "every set of options gives the same events"
LEVERS = {
    "work_mem": (12, "SET logical_decoding_work_mem = '64kB'"),
    "immediate": (16, "SET debug_logical_replication_streaming = immediate"),
}
_STREAMING: tuple[tuple[Literal["off", "on", "parallel"], str], ...] = (
    ("off", "work_mem"), ("on", "work_mem"), ("on", "immediate"), ("parallel", "work_mem"), ("parallel", "immediate"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """A set of options, and how the server is made to stream."""

    wishes: StreamWishes
    lever: str

    @property
    def slot(self) -> str:
        wishes = self.wishes
        return f"{wishes.streaming}_{self.lever}_{'b' * wishes.binary}_{'p' * wishes.two_phase}_slot"


EVERY_SET = [
    Asked(StreamWishes(binary=binary, streaming=streaming, two_phase=two_phase), lever)
    for streaming, lever in _STREAMING
    for binary, two_phase in product((False, True), (False, True))
]
PLAIN = EVERY_SET[0]


def asked_of(version: int) -> list[Asked]:
    """Every set that this server can be asked for, the newest last."""
    return [asked for asked in EVERY_SET if version >= LEVERS[asked.lever][0] * 10000 and _can(version, asked.wishes)]


def _can(version: int, wishes: StreamWishes) -> bool:
    with contextlib.suppress(OperatorError):
        start_options(["pub"], version, wishes)
        return True
    return False


@dataclass(frozen=True, slots=True)
class Run:
    """A server after the workloads."""

    database: Database
    version: int

    def committed(self, asked: Asked) -> tuple[list[Transaction], set[str]]:
        """What a slot's messages say, and their tags."""
        wait_until_free(self.database, self.slot(asked))
        walsender = connect_walsender(self.database.dsn)
        if asked.wishes.streaming != "off":
            walsender_query(walsender, LEVERS[asked.lever][1])
        reader, tags = Reader(), set()
        deadline_s = time.monotonic() + DRAINED_S
        with ReplicationStream(walsender, self.slot(asked), 1_000) as stream:
            stream.start(Lsn(0), start_options(["pub"], self.version, asked.wishes))
            while not (reader.transactions and reader.transactions[-1].events[-1:] == [END]):
                assert time.monotonic() < deadline_s, f"{asked} was not drained within {DRAINED_S:.0f} s"
                frame = stream.read()
                if frame is None:
                    stream.wait(0.1)
                elif isinstance(message := decode_frame(frame), XLogData):
                    tags.add(chr(message.payload[0]))
                    reader.read([message.payload])
        return [transaction for transaction in reader.transactions if transaction.events], tags

    def slot(self, asked: Asked) -> str:
        return f"{asked.slot}_{self.database.name}"


@pytest.fixture(scope="module")
def runs(postgres_version: Callable[[int], PostgresServer]) -> Iterator[Callable[[int], Run]]:
    """The workloads run once on each server, when first asked for."""
    made: dict[int, Run] = {}
    with contextlib.ExitStack() as stack:

        def of(major: int) -> Run:
            if major not in made:
                made[major] = _run(stack.enter_context(new_database(postgres_version(major))))
            return made[major]

        yield of


def _run(database: Database) -> Run:
    with database.connect() as connection:
        version = connection.info.server_version
        create_tables(database, version)
        run = Run(database, version)
        for asked in asked_of(version):
            two_phase = ", false, true" if asked.wishes.two_phase else ""
            create = f"SELECT pg_create_logical_replication_slot(%s, 'pgoutput'{two_phase})"
            connection.execute(create.encode(), (run.slot(asked),))
    run_workloads(database, version)
    return run


def sets_tested() -> Iterator[tuple[int, Asked]]:
    """All on the newest version, the newest on the others; MATRIX=1: all."""
    for major in MAJORS:
        sets = [asked for asked in asked_of(major * 10000) if asked != PLAIN]
        for asked in sets if major == MAJORS[-1] or os.environ.get("MATRIX") else sets[-1:]:
            yield major, asked


@pytest.mark.feature(SAME)
@pytest.mark.parametrize(
    ("major", "asked"), list(sets_tested()), ids=lambda each: each.slot if isinstance(each, Asked) else str(each)
)
def test_options_change_neither_what_was_committed_nor_its_positions(
    runs: Callable[[int], Run], major: int, asked: Asked
) -> None:
    """I4: position, table, operation and row of every change."""
    plain, _ = runs(major).committed(PLAIN)
    found, tags = runs(major).committed(asked)

    assert ("S" in tags, "p" in tags or "P" in tags) == (asked.wishes.streaming != "off", asked.wishes.two_phase)
    for expected, transaction in zip(plain, found, strict=True):
        assert (expected.commit_lsn, expected.end_lsn) == (transaction.commit_lsn, transaction.end_lsn)
        assert expected.events == transaction.events


@pytest.mark.feature(SAME)
@pytest.mark.parametrize("major", MAJORS)
def test_what_was_committed_adds_up_to_the_tables(runs: Callable[[int], Run], major: int) -> None:
    transactions, _ = runs(major).committed(PLAIN)
    queries = published_queries(runs(major).version)
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in queries}
    for transaction in transactions:
        for event in transaction.events:
            _apply(tables, event)

    for name, rows in tables.items():
        with runs(major).database.connect() as connection:
            cursor = connection.execute(queries[name].encode())
            columns = [column.name for column in cursor.description or ()]
            expected = [dict(zip(columns, row, strict=True)) for row in cursor]
        complete = [dict.fromkeys(columns) | row for row in rows]
        assert sorted(expected, key=str) == sorted(complete, key=str)


def _apply(tables: dict[str, list[dict[str, Any]]], event: Event) -> None:
    operation, table, before, after = event
    rows = tables[table]
    if operation == "t":
        rows.clear()
    if operation in ("u", "d"):
        known = before or {name: value for name, value in (after or {}).items() if name in ("id", "k")}
        (old,) = [row for row in rows if known.items() <= row.items()][:1]
        rows.remove(old)
        after = after and {n: old.get(n) if v is Unsent.UNCHANGED_TOAST else v for n, v in after.items()}
    if after is not None:
        rows.append(after)
