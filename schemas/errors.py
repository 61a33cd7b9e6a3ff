"""Errors sorted by who must act.

``ProtocolError`` is all that decoding raises, ``RetryableError`` heals by reconnecting,
``OperatorError`` stops the program with exit code 2 and says what mends it. Anything else
is a bug: crash with code 1; nothing was confirmed, so a restart replays.
"""

import sys

EXIT_BUG = 1
EXIT_OPERATOR = 2


COPY_TABLE = "copy that table again: walbridge copy TABLE; walbridge tables names all of them"
"""The remedy for one table's trouble where its name is not known: see also ``copy_command``."""
COPY_ALL = (
    "copy all tables again, into the same topics and lake: walbridge copy --all, then start walbridge produce; until "
    "its copy is whole each table stays in the lake as it was, marked stale"
)
"""The remedy where the stream cannot go on from what was published."""
COPY_ALL_ANEW = (
    "copy all tables again, in a new epoch of the same topics and lake: walbridge copy --all --new-epoch; once "
    "walbridge produce has begun it, start walbridge materialize again; until its copy is whole each table stays in "
    "the lake as it was, marked stale"
)
"""The remedy where the lake cannot go on from what it has applied; the producer may know nothing of that."""
NEW_PIPELINE = "follow this server as a new pipeline: a new name, [postgres] slot and [lake] path, then walbridge init"
"""A remedy where ``walbridge drop`` refuses, since the slot here is not this pipeline's, or would harm another one."""
COPY_ALL_FIRST = (
    "run walbridge drop --slot-only, then start walbridge produce: it copies all tables again, into the same topics "
    "and lake"
)
"""The remedy where no record says any more what was published."""
START_REGISTRY = "start the schema registry, or correct [topics] registry_url"
START_BROKER = "start the broker, or correct [kafka] bootstrap_servers"
LET_IN = "correct [kafka.client]: security.protocol, sasl.* and ssl.*, and the files of client_files"
LOCKED = "a published table is locked by another session, as while it is altered"
WAIT_FOR_LOCK = (
    "wait until nobody alters a published table, or end the session that does: SELECT pid, relation::regclass FROM "
    "pg_locks WHERE mode = 'AccessExclusiveLock'"
)
NO_CONNECTION_LEFT = (
    "raise the limit that Postgres names (max_connections, max_wal_senders, or that of the role or database), or end "
    "sessions that nobody needs: SELECT pid, usename, application_name, backend_type, state FROM pg_stat_activity"
)
NAME_THE_PRIMARY = (
    "name its primary in [postgres] dsn; host=db1,db2 target_session_attrs=read-write finds the one of both that takes "
    "writes, also after a failover"
)
MEND_PROPERTY = "mend that property in walbridge.toml"
NEWER_WALBRIDGE = "run the version of walbridge that wrote it, or a newer one"


class WalbridgeError(Exception):
    """Base of every error that walbridge raises on purpose."""


class ProtocolError(WalbridgeError):
    """Bytes that do not follow their format: pgoutput, COPY or Avro."""


class RetryableError(WalbridgeError):
    """A peer is away. Reconnect with back-off; nothing is lost."""


class KafkaAway(RetryableError):
    """The peer that is away is Kafka; else it is Postgres, or:"""


class RegistryAway(RetryableError):
    """The schema registry is away."""


class TableLocked(RetryableError):
    """Postgres is there, but another session has held a lock on a table for longer than we wait."""


class ServerFault(RetryableError):
    """Postgres is there, and met a fault of its own. It may pass by itself, or come each time."""


class NoConnectionLeft(RetryableError):
    """Postgres is there, and others have all the connections that it gives, or gives us."""


class IsStandby(RetryableError):
    """Postgres is there, and follows another server; it may be promoted any moment."""


class KafkaRefuses(KafkaAway):
    """It is there, but does not let us in: a password may be wrong, or it is about to start."""


def back_again(away: RetryableError, otherwise: str) -> str:
    """The remedy by which peer it is; ``otherwise``: where it is neither Kafka nor the registry."""
    if isinstance(away, KafkaRefuses):
        return LET_IN
    if isinstance(away, KafkaAway):
        return START_BROKER
    if isinstance(away, TableLocked):
        return WAIT_FOR_LOCK
    if isinstance(away, IsStandby):
        return NAME_THE_PRIMARY
    if isinstance(away, NoConnectionLeft):
        return NO_CONNECTION_LEFT
    return START_REGISTRY if isinstance(away, RegistryAway) else otherwise


class OperatorError(WalbridgeError):
    """Only a person can mend this.

    Args:
        what: what happened, and to what. Never holds a row value or a secret (I10).
        remedy: the SQL, command or setting that mends it.
    """

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}\n  remedy: {remedy}")
        self.what = what
        self.remedy = remedy


class Superseded(OperatorError):
    """Another process has this pipeline by now, or had it all the time: what it says of itself stands."""


class StreamLost(OperatorError):
    """The stream cannot go on from what was published: ``COPY_ALL`` mends it.

    Args:
        what: as above.
        instead: what else would mend it.
        first: what would bring the same again if it stayed.
    """

    is_in_wal = False
    """Whether a session met it: no look before one tells."""
    is_crash = False
    """Whether the server crashes there: then no start may try again by itself."""

    def __init__(self, what: str, instead: str = "", first: str = "") -> None:
        before = (f"{instead}; or " if instead else "") + (f"{first}; then " if first else "")
        super().__init__(what, remedy=before + COPY_ALL)
        self.first = first


def copy_command(table: str) -> str:
    """The remedy for one table's trouble; ``table``: ``schema.table``."""
    return f"walbridge copy {table}"


def abort_command(topic: str, partition: int, offset: int) -> str:
    """What ends a transaction that is open in Kafka since this offset, which is where readers see nothing more."""
    return f"kafka-transactions.sh abort --topic {topic} --partition {partition} --start-offset {offset}"


def end_transaction(topic: str, offset: int) -> str:
    """The remedy for one that hides records of a topic of all tables, which have one partition."""
    return (
        "if another program writes there, end it, and wait until its transaction has timed out; or end the "
        f"transaction: {abort_command(topic, 0, offset)}"
    )


class TableError(OperatorError):
    """An OperatorError about one table alone: all others can go on without it.

    Args:
        what: as in ``OperatorError``.
        first: what has to be mended before a copy of the table helps; None where a copy is all that it takes.
    """

    def __init__(self, what: str, first: str | None = None) -> None:
        super().__init__(what, remedy=f"{first}, then {COPY_TABLE}" if first else COPY_TABLE)
        self.first = first


def foreign_lake(path: str, theirs: str, ours: str) -> OperatorError:
    """Its tables may have our tables' names, and hold what another pipeline wrote."""
    return OperatorError(
        f"the lake at {path} belongs to pipeline {theirs}, this one is {ours}",
        remedy="give this pipeline its own [lake] path, or set name to the lake's; if that was its name before, set "
        "formerly to it",
    )


def unreadable_record(topic: str, error: ProtocolError, offset: int | None = None) -> OperatorError:
    """A control record that does not decode: newer code may have written it."""
    place = "" if offset is None else f" at offset {offset}"
    return OperatorError(f"{topic} holds a record{place} that this version cannot read: {error}", NEWER_WALBRIDGE)


def report(error: OperatorError) -> int:
    """Say on stderr what happened and what mends it, a line each; the exit code."""
    sys.stderr.write(f"error: {_one_line(error.what)}\nremedy: {_one_line(error.remedy)}\n")
    return EXIT_OPERATOR


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())
