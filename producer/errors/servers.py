"""What a server lacks, a slot that has another producer, a server that crashes; with the remedy of each."""

from walbridge.schemas.errors import OperatorError, StreamLost, Superseded


def wal_level_too_low(level: str) -> OperatorError:
    """Logical decoding needs more in the WAL."""
    return OperatorError(
        f"the server has wal_level = {level}",
        remedy="ALTER SYSTEM SET wal_level = logical; and restart the server",
    )


def not_utf8(encoding: str) -> OperatorError:
    """SQL_ASCII is not converted: its bytes may be no UTF-8, which Avro strings must be."""
    return OperatorError(
        f"the database's encoding is {encoding}, which Postgres does not convert to UTF-8",
        remedy="dump it and load it into a database created with ENCODING 'UTF8'",
    )


def another_runs(transactional_id: str, pipeline: str, slot: str) -> Superseded:
    """Two producers of one slot: Kafka lets the newer one write, and refuses the older."""
    return Superseded(
        f"another producer runs under transactional id {transactional_id}: it took pipeline {pipeline}, slot {slot}, "
        "over, and this one ends; nothing is lost, the other goes on after the last batch that Kafka committed",
        remedy="do nothing if the other is to go on; else stop it and start this one again: a slot has one producer",
    )


def slot_has_producer(slot: str, holder: str, pid: int) -> Superseded:
    """The second producer of a slot ends, and the first goes on."""
    return Superseded(
        f"slot {slot} has a producer: {holder}; this one has waited for its end and published nothing",
        remedy="do nothing if that one is to go on; else stop it, then start this one again; if its machine is gone "
        f"for good: SELECT pg_terminate_backend({pid});",
    )


def crashes_while_decoding(what: str) -> StreamLost:
    """Each attempt costs all sessions of the server. A client cannot know that it was the walsender that crashed."""
    lost = StreamLost(
        what,
        instead="if the server's log says that other processes crashed: mend that, then run walbridge produce "
        "--try-again",
        first="if not, and on Postgres 14 or newer, end what was broken off of each DETACH PARTITION ... CONCURRENTLY: "
        "SELECT inhrelid::regclass, inhparent::regclass FROM pg_inherits WHERE inhdetachpending names the partition "
        "and its table, ALTER TABLE ... DETACH PARTITION ... FINALIZE ends it",
    )
    lost.is_crash = True
    return lost
