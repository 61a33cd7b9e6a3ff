"""The lake: can it be written, and is what is there this pipeline's?

In: settings, and what Kafka holds. Out: findings. A folder is tried by writing a file and
removing it again, and whatever folders that took.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deltalake.exceptions import DeltaError

from walbridge.check.finding import LAKE, Finding, Severity, advice, error, ok, refused, warning
from walbridge.runtime.host import probe_folder
from walbridge.schemas.errors import COPY_AGAIN, RetryableError, copy_command, foreign_lake
from walbridge.schemas.position import format_lsn
from walbridge.schemas.progress_record import Progress
from walbridge.schemas.settings import Settings, flatten
from walbridge.spark_consumer.delta.manifest_reader import newest_rows, open_table
from walbridge.spark_consumer.errors import unwritable_lake
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.spark_consumer.plan.segments import LEFT


def lake_findings(settings: Settings) -> Iterator[Finding]:
    """Writing, then what is there."""
    writable = _writable(settings.lake.path)
    yield writable
    rows = _newest_rows(settings)
    row = rows[0] if rows else None
    if row is None:
        if writable.severity is not Severity.ERROR:
            yield ok(LAKE, "empty: the first copy will fill it")
    elif row.pipeline != settings.name:
        yield refused(LAKE, foreign_lake(settings.lake.path, row.pipeline, settings.name))
    else:
        yield ok(LAKE, f"of this pipeline, at cut {row.to_cut}, {format_lsn(row.end_lsn)}")
        yield from _in_trouble(rows)


def _in_trouble(rows: Sequence[CutRow]) -> Iterator[Finding]:
    """Tables that the job left as they were: nothing stops, and readers are refused them."""
    # A plan's row names only what it touches.
    tables = next((row.tables for row in rows if row.kind != "plan"), ())
    for entry in sorted(tables, key=lambda entry: entry.qualified_name):
        if entry.why is not None and entry.state in LEFT:
            since = "" if entry.since is None else f" since {format_lsn(entry.since)}"
            what = f"table {entry.qualified_name} is {entry.state}{since}: {entry.why}"
            yield warning(LAKE, what, copy_command(entry.qualified_name))


def standing_findings(
    settings: Settings, progress: Progress | None, cuts_end: Callable[[], int | None]
) -> Iterator[Finding]:
    """The lake beside Kafka: are they of one copy, and does the lake know no cut that Kafka lacks?

    Args:
        cuts_end: end of the cuts topic; asked after the lake, which may move on meanwhile.
    """
    row = newest_row(settings)
    if row is None or row.pipeline != settings.name:
        return
    if row.next_offset > (cuts_end() or 0):
        yield error(
            LAKE,
            "the cuts topic ends before what this lake has applied: it was made anew",
            COPY_AGAIN,
        )
    elif progress is not None and progress.consistent_point is not None and row.epoch != str(progress.epoch):
        yield warning(
            LAKE,
            "it holds the tables of an earlier copy",
            "walbridge materialize replaces them; walbridge status shows when it has",
        )


def newest_row(settings: Settings) -> CutRow | None:
    """The newest row of ``_cuts``. None also where the path leads to no folder: that it cannot be written is told.

    Raises:
        OperatorError: whether there is one cannot be seen.
        RetryableError: it cannot be read.
    """
    return next(iter(_newest_rows(settings)), None)


def _newest_rows(settings: Settings) -> list[CutRow]:
    """The newest row, and one before it."""
    if "://" not in settings.lake.path and not Path(settings.lake.path).is_dir():
        return []
    options = flatten(settings.lake.storage_options)
    try:
        table = open_table(settings.lake.path, options)
        return newest_rows(table, 2) if table is not None else []
    except (DeltaError, OSError) as failure:
        raise RetryableError(f"_cuts cannot be read: {type(failure).__name__}") from None


def _writable(path: str) -> Finding:
    if "://" in path:
        return advice(
            LAKE,
            f"{path} is no folder: whether it can be written was not tried",
            "run walbridge materialize --once, which writes there",
        )
    try:
        probe_folder(Path(path))
    except OSError as failure:
        return refused(LAKE, unwritable_lake(path, failure.strerror))
    return ok(LAKE, f"{path} can be written")
