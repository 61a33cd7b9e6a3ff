"""Sorts the errors of Spark, Kafka and the lake's storage by who must act, and names what mends them.

In: an exception of a stream or a batch read, of whose Java cause only the text is left, or of delta-rs, which passes on
the storage's errors as text. Out: the error class that says who must act. The text itself is never shown, since it
may quote data (I10).
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from typing import Any

from walbridge.runtime.heap import MORE_HEAP
from walbridge.schemas.control.cut import Cut
from walbridge.schemas.errors import COPY_ALL_ANEW, OperatorError, RetryableError, TableError, WalbridgeError

FIND_THE_WRITER = "find who else writes to this topic"
GRANT_READ = (
    "grant the job's principal Read on topics <name>.* and on group walbridge-<name>: walbridge init --acls prints the "
    "commands"
)
_WITHOUT_CHECKPOINT = "delete the folder _checkpoint in the lake: what has been applied is known without it"
_DATA_LOSS = "failOnDataLoss|KAFKA_DATA_LOSS"
_KAFKA = r"org\.apache\.kafka\.common\.errors\."

_OPERATOR_CAUSES: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(rf"{_KAFKA}(Sasl|Ssl)?Authentication"),
        "Kafka does not accept the Spark job's credentials",
        "check [kafka.spark]: security.protocol, sasl.mechanism, sasl.jaas.config",
    ),
    (
        re.compile(rf"{_KAFKA}\w*AuthorizationException"),
        "Kafka does not allow the Spark job to read",
        GRANT_READ,
    ),
    (
        re.compile(r"java\.lang\.OutOfMemoryError"),
        "the Spark driver ran out of memory",
        MORE_HEAP,
    ),
    (
        re.compile(r"lacked the necessary privileges|Error performing [\s\S]*\b40[13] (Unauthorized|Forbidden)"),
        "the lake's object store refuses the credentials",
        "check [lake] path and [lake] storage_options, then start again: nothing is lost",
    ),
    (
        re.compile(r"Generic (S3|GCS|MicrosoftAzure|HTTP|Http)\w* error|Error performing \w+ "),
        "the lake's object store does not answer, or refuses a request",
        "check that it is up, [lake] path and [lake] storage_options, then start again: nothing is lost",
    ),
    (
        re.compile(r"Too many open files"),
        "this user, or this machine, may have no more files open",
        "raise the limit (ulimit -n, or LimitNOFILE= of systemd), then start again: nothing is lost",
    ),
    (
        # Of NFS and FUSE, for instance; in the system's own words, as below.
        re.compile(
            "Transport endpoint is not connected|Host is down|Remote I/O error|No such device|Structure needs cleaning"
            "|Software caused connection abort"
        ),
        r"the storage of the lake, or of scratch files, does not answer: \g<0>",
        "mount it again, or have it repaired, where [lake] path and the temporary folder are; then start again: "
        "nothing is lost",
    ),
    (
        re.compile(r"Unknown scheme: "),
        "the lake's path names a kind of store that delta-rs does not know",
        'write [lake] path as a folder, or as a URI such as "s3://bucket/lake"',
    ),
    (
        re.compile(r"Kafka option '(?:kafka\.)?([a-z.]+)' is not supported"),
        r"[kafka.spark] sets \1, which Spark's source of Kafka sets itself",
        "remove it from [kafka.spark]",
    ),
    (
        re.compile(rf"^StreamingQueryException [\s\S]*({_DATA_LOSS})"),
        "the checkpoint names offsets that the cuts topic does not have",
        _WITHOUT_CHECKPOINT,
    ),
    (
        re.compile(r"CheckpointFileManager|STREAMING_CHECKPOINT|Malformed.*checkpoint|Incomplete log file"),
        "the stream's checkpoint cannot be read",
        _WITHOUT_CHECKPOINT,
    ),
)
_DISK = re.compile(
    r"No space left on device|Disk quota exceeded|Permission denied|Operation not permitted|Read-only file system"
    r"|Input/output error|Stale file handle|AccessDeniedException|No usable temporary directory"
)
"""The operating system's messages, which come through Java, Rust and Python alike."""
_AWAY = re.compile(
    rf"{_KAFKA}(Timeout|Disconnect|Network|LeaderNotAvailable|NotLeaderOrFollower|NotCoordinator"
    r"|CoordinatorNotAvailable|CoordinatorLoadInProgress|BrokerNotAvailable|KafkaStorage|FencedLeaderEpoch"
    r"|UnknownLeaderEpoch|ReplicaNotAvailable|OffsetNotAvailable)Exception"
    # A batch read: records expired since its bounds were checked, and the next attempt's check names them.
    rf"|{_DATA_LOSS}"
    # A batch read raises this when its poll came back empty; the bounds were checked just before.
    r"|Cannot fetch record for offset \d+ in \d+ milliseconds"
    # Not a wrong property: with the same ones KafkaLog has asked for bounds just before.
    r"|Failed to construct kafka consumer|KafkaIllegalStateException|fetch data before the (poll )?timeout"
)


def classified_error(error: BaseException) -> BaseException:
    """The error of ours that an exception stands for. The same exception if its text is unknown, which means a bug."""
    if isinstance(error, WalbridgeError):
        return error
    text = f"{type(error).__name__} {error}"
    for pattern, what, remedy in _OPERATOR_CAUSES:
        if found := pattern.search(text):
            return OperatorError(found.expand(what), remedy)
    if said := _DISK.search(text):
        return OperatorError(
            f"a file of the lake, or a scratch file, cannot be written or read: {said[0]}",
            "make room, or give this user the right to write all of [lake] path and of the temporary folder, "
            "then start again: nothing is lost",
        )
    if _AWAY.search(text):
        return RetryableError("Kafka went away while Spark was reading")
    return error


def may_be_of_checkpoint(error: BaseException) -> bool:
    """Whether a stream that died as it began may have died of its checkpoint: Spark tells that in many ways, so
    whatever is not known to have another cause counts."""
    found = classified_error(error)
    return found is error or (isinstance(found, OperatorError) and found.remedy == _WITHOUT_CHECKPOINT)


@contextmanager
def classifying_errors() -> Iterator[None]:
    """A block whose exceptions become errors of ours where their cause is known; others pass unchanged."""
    try:
        yield
    except Exception as error:
        found = classified_error(error)
        if found is error:  # as its own cause it would be reported without an end
            raise
        raise found from error


class CutsLost(OperatorError):
    """The cuts that the lake needs next are gone, or do not fit. A new epoch would mend that (``resumption.py``).

    Args:
        what: as in ``OperatorError``.
        instead: another remedy, which is named first.
    """

    def __init__(self, what: str, instead: str = "") -> None:
        super().__init__(what, remedy=f"{instead}; else {COPY_ALL_ANEW}" if instead else COPY_ALL_ANEW)


def cuts_unfit(applied: Cut | None, next_cut: Cut, fault: str) -> CutsLost:
    """The error of cuts that do not follow the last one that this lake has applied."""
    if applied is not None and applied.epoch != next_cut.epoch:
        return _of_another_time(applied, next_cut)
    return CutsLost(f"the cuts do not fit together: {fault}")


def _of_another_time(applied: Cut, next_cut: Cut) -> CutsLost:
    """The error of another epoch that does not begin with cut 1 here: lake or topic is from another time."""
    return CutsLost(
        f"the lake is at cut {applied.cut_id} of epoch {applied.epoch}, and the cuts topic goes on with cut "
        f"{next_cut.cut_id} of epoch {next_cut.epoch}: one of them is from another time",
        instead="if topics or lake were restored from an older state, or [lake] path names another copy, correct that",
    )


def cuts_made_anew() -> CutsLost:
    """The error of a lake that has applied more cuts than the topic holds."""
    return CutsLost("the cuts topic ends before what this lake has applied: it was made anew")


def lake_may_lack_storage(path: str, error: OperatorError) -> OperatorError:
    """An error at the start with an empty lake, which may be a mount point without its storage: that is named as the
    first remedy, before a new epoch. Also for one table whose records are gone, since this lake has no table yet."""
    if not isinstance(error, (CutsLost, TableError)):
        return error
    return CutsLost(
        f"the lake {path} was empty at the start, and {error.what}",
        instead="if it held tables before, mount its storage or correct [lake] path",
    )


def records_gone(topic: str, partition: int, offset: int, start: int) -> str:
    """Words for records that a cut promises from ``offset`` on, though the log begins at ``start``."""
    return (
        f"records of {topic}[{partition}] from offset {offset} on are gone, the log begins at {start}: this job was "
        "away for longer than [topics] retention_ms, or somebody deleted them"
    )


def table_lost(path: str, how: str) -> TableError:
    """The error of a table that does not hold the version that the newest row of ``_cuts`` names."""
    return TableError(f"the lake's table {path} {how}")


def not_shared(uri: str, hosts: str) -> OperatorError:
    """The error of executors that write the table to their own disks. ``hosts``: of the driver and of all executors."""
    return OperatorError(
        f"Spark's executors wrote to another disk than the driver's, or looked there for files of {uri}: what they "
        f"wrote is published nowhere (driver and executors: {hosts})",
        remedy="mount the lake at the same path on each of these hosts, or set [lake] applier = "
        '"local"; then start again: nothing is lost',
    )


def unwritable_lake(path: str, error: OSError) -> OperatorError:
    """The error of a lake folder that cannot be written."""
    mend = "make room" if error.errno in (ENOSPC, EDQUOT) else "give this user the right to write"
    return OperatorError(
        f"the lake {path} cannot be written: {error.strerror}",
        remedy=f"{mend} there, or name another folder in [lake] path",
    )


def java_cause(error: Any, properties: Mapping[str, str]) -> str:
    """The class of the last cause of a Java exception, and the names of the properties that its messages quote.

    The messages themselves may quote a secret (I10).
    """
    *_, last = _causes(error)
    named = named_properties(properties, messages(error))
    return class_name(last) + (f", about {', '.join(named)}" if named else "")


def messages(error: Any) -> str:
    """The messages of a Java exception and its causes: to be searched, never shown (I10)."""
    return " ".join(str(each.getMessage()) for each in _causes(error))


def named_properties(properties: Mapping[str, str], message: str) -> list[str]:
    """Names of the properties whose name or value occurs in a message."""
    return [name for name, value in properties.items() if name in message or (len(value) > 3 and value in message)]


def class_name(error: Any) -> str:
    """The class of a Java exception, without its package."""
    return str(error.getClass().getSimpleName())


def _causes(error: Any) -> Iterator[Any]:
    while error is not None:
        yield error
        error = error.getCause()
