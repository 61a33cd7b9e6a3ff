"""The server: its version, what replication needs of it, what it does with a slot nobody reads.

In: a connection. Out: findings. What was read is a value, so that every judgement is tested
without a server in that state.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from walbridge.check.finding import Finding, advice, error, ok, refused, warning
from walbridge.producer.errors.servers import not_utf8, wal_level_too_low
from walbridge.producer.postgres.connection import SqlConnection
from walbridge.schemas.errors import NAME_THE_PRIMARY

AREA = "server"
OLDEST, NEWEST = 12, 18
"""Major versions; the tests run on each from the one to the other."""
WALSENDERS_NEEDED = 2
"""One streams; a start asks who the server is, through another."""

_FACTS = """
SELECT current_setting('server_version'), current_setting('server_version_num')::int, pg_is_in_recovery(),
       current_setting('wal_level'), current_setting('server_encoding'),
       current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots),
       current_setting('max_wal_senders')::int, (SELECT count(*) FROM pg_stat_replication),
       (SELECT setting::int FROM pg_settings WHERE name = 'wal_sender_timeout'),
       (SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),
       coalesce((SELECT setting::int FROM pg_settings WHERE name = 'idle_replication_slot_timeout'), 0)
"""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """``slot_wal_keep_mb`` -1: without limit; None: the server knows no limit."""

    version: str
    version_number: int
    in_recovery: bool
    wal_level: str
    encoding: str
    slots_max: int
    slots_used: int
    walsenders_max: int
    walsenders_used: int
    wal_sender_timeout_ms: int
    slot_wal_keep_mb: int | None
    idle_slot_timeout_s: int


def server_facts(connection: SqlConnection) -> ServerFacts:
    """As the server says it now."""
    row = connection.execute(_FACTS).fetchone()
    assert row is not None
    return ServerFacts(*row)


def server_findings(facts: ServerFacts, *, slot_exists: bool) -> Iterator[Finding]:
    """Everything about the server itself."""
    yield _version(facts)
    if facts.in_recovery:
        yield error(AREA, "the server is a standby, which cannot be followed", NAME_THE_PRIMARY)
    yield _wal_level(facts)
    if facts.encoding == "SQL_ASCII":
        yield refused(AREA, not_utf8(facts.encoding))
    yield _slots(facts, slot_exists)
    yield _walsenders(facts)
    yield _sender_timeout(facts)
    yield from _kept_wal(facts)


def _version(facts: ServerFacts) -> Finding:
    major = facts.version_number // 10_000
    if major < OLDEST:
        return error(AREA, f"Postgres {facts.version} is too old", f"use Postgres {OLDEST} or newer")
    if major > NEWEST:
        return advice(
            AREA,
            f"Postgres {facts.version} is newer than {NEWEST}, the newest that was tested",
            "compare with walbridge verify before you rely on it",
        )
    return ok(AREA, f"Postgres {facts.version}")


def _wal_level(facts: ServerFacts) -> Finding:
    if facts.wal_level != "logical":
        return refused(AREA, wal_level_too_low(facts.wal_level))
    return ok(AREA, "wal_level = logical")


def _slots(facts: ServerFacts, slot_exists: bool) -> Finding:
    left = facts.slots_max - facts.slots_used
    text = f"{facts.slots_used} of max_replication_slots = {facts.slots_max} in use"
    if left < 1 and not slot_exists:
        raise_it = f"ALTER SYSTEM SET max_replication_slots = {facts.slots_max + 4}; and restart the server"
        return error(AREA, f"{text}: none left for ours", raise_it)
    return ok(AREA, text)


def _walsenders(facts: ServerFacts) -> Finding:
    left = facts.walsenders_max - facts.walsenders_used
    text = f"{facts.walsenders_used} of max_wal_senders = {facts.walsenders_max} in use"
    raise_it = f"ALTER SYSTEM SET max_wal_senders = {facts.walsenders_max + 4}; and restart the server"
    if left < 1:
        return error(AREA, f"{text}: none left", raise_it)
    if left < WALSENDERS_NEEDED:
        return warning(AREA, f"{text}: a start of the producer needs {WALSENDERS_NEEDED}", raise_it)
    return ok(AREA, text)


def _sender_timeout(facts: ServerFacts) -> Finding:
    timeout_ms = facts.wal_sender_timeout_ms
    if timeout_ms == 0:
        return advice(
            AREA,
            "wal_sender_timeout = 0: after a cut connection the slot stays in use until the server notices",
            "ALTER SYSTEM SET wal_sender_timeout = '60s'; SELECT pg_reload_conf();",
        )
    return ok(AREA, f"wal_sender_timeout = {timeout_ms} ms; the producer reports at least three times as often")


def _kept_wal(facts: ServerFacts) -> Iterator[Finding]:
    until_full = "while nobody reads the slot it keeps WAL until the disk is full and the primary stops"
    if facts.slot_wal_keep_mb is None:
        remedy = "watch walbridge status; Postgres 13 and newer can be given a limit"
        yield warning(AREA, f"no max_slot_wal_keep_size: {until_full}", remedy)
    elif facts.slot_wal_keep_mb < 0:
        yield warning(
            AREA,
            f"max_slot_wal_keep_size = -1: {until_full}",
            "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf(); "
            "(a slot further behind is then lost, and a new copy needed); or watch walbridge status",
        )
    else:
        yield ok(AREA, f"max_slot_wal_keep_size = {facts.slot_wal_keep_mb} MB; a slot further behind is lost")
    if facts.idle_slot_timeout_s:
        yield advice(
            AREA,
            f"idle_replication_slot_timeout = {facts.idle_slot_timeout_s} s: a producer that is stopped for longer "
            "loses its slot",
            "ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();",
        )
