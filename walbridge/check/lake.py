"""The lake: can it be written, and does it belong to this pipeline?

In: settings, and what Kafka holds. Out: findings. A folder is tried by writing a file and
removing it again, and whatever folders that took.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deltalake.exceptions import DeltaError

from walbridge.check.finding import LAKE, Finding, Severity, advice, error, ok, refused, warning
from walbridge.check.room import room_findings
from walbridge.control_records import CutsKept
from walbridge.runtime.host import probe_folder
from walbridge.schemas.control.progress_record import Progress
from walbridge.schemas.errors import RetryableError, WalbridgeError, copy_command, foreign_lake
from walbridge.schemas.position import format_lsn
from walbridge.schemas.properties import flatten
from walbridge.schemas.setting_checks.lake_path import refuse_misread
from walbridge.schemas.settings import Settings
from walbridge.spark_consumer.delta.empty_commits import empty_commits
from walbridge.spark_consumer.delta.maintenance.log_files import LogFiles, files_in
from walbridge.spark_consumer.delta.manifest.manifest_reader import newest_rows, open_table
from walbridge.spark_consumer.errors import (
    classified_error,
    cuts_made_anew,
    cuts_unfit,
    lake_may_lack_storage,
    table_lost,
    unwritable_lake,
)
from walbridge.spark_consumer.plan.cut_faults import cut_fault
from walbridge.spark_consumer.plan.lake_state import LakeState
from walbridge.spark_consumer.plan.manifest_row import CutRow
from walbridge.spark_consumer.plan.table_head import AWAITING_COPY

LOW_BYTES = 10 * 2**30
"""As the alert that is shipped, ``WalbridgeLakeDiskFills``."""
COPY_GOES_ON = "none: a copy of it goes on, which ends this; walbridge tables shows how far it is"
VERSION_DIGITS = 20
"""Of a commit's or checkpoint's file name."""


def lake_findings(settings: Settings) -> Iterator[Finding]:
    """Whether the lake can be written, then what it holds."""
    refuse_misread(settings.lake.path)
    writable = _writable(settings.lake.path)
    yield writable
    if "://" not in settings.lake.path:
        remedy = "make room, move the lake to a larger disk, or shorten [lake] cut_retention_hours"
        yield from room_findings(LAKE, Path(settings.lake.path), LOW_BYTES, remedy)
    rows = newest_two(settings)
    row = rows[0] if rows else None
    if row is None:
        if writable.severity is not Severity.ERROR:
            yield ok(LAKE, "empty: the first copy will fill it")
    elif row.pipeline == settings.formerly:
        yield ok(LAKE, f"of this pipeline as {row.pipeline}: it goes on once all tables are copied under the new name")
    elif row.pipeline != settings.name:
        yield refused(LAKE, foreign_lake(settings.lake.path, row.pipeline, settings.name))
    else:
        yield ok(LAKE, f"of this pipeline, at cut {row.to_cut}, {format_lsn(row.end_lsn)}")
        yield from _in_trouble(rows)
        yield from table_findings(settings)


def _in_trouble(rows: Sequence[CutRow]) -> Iterator[Finding]:
    """Tables that the job no longer changes: the job goes on, but ``tables_at`` refuses them."""
    # A plan's row names only what it touches.
    tables = next((row.tables for row in rows if row.kind != "plan"), ())
    for entry in sorted(tables, key=lambda entry: entry.qualified_name):
        if entry.why is not None and entry.state in AWAITING_COPY:
            since = "" if entry.since is None else f" since {format_lsn(entry.since)}"
            what = f"table {entry.qualified_name} is {entry.state}{since}: {entry.why}"
            yield warning(LAKE, what, copy_command(entry.qualified_name) if entry.copy_from is None else COPY_GOES_ON)


def standing_findings(
    settings: Settings, progress: Progress | None, cuts_kept: Callable[[int], CutsKept]
) -> Iterator[Finding]:
    """The lake beside Kafka: what ``walbridge materialize`` would say of the cuts that it has not applied yet.

    Args:
        cuts_kept: what the cuts topic has from an offset on; asked after the lake, which may move on meanwhile.
    """
    rows = newest_two(settings)
    if rows and rows[0].pipeline != settings.name:
        return
    # An open plan is made again from where the row before it ended.
    state = LakeState.after(settings.name, next((row for row in rows if row.kind != "plan"), None))
    kept = cuts_kept(state.next_offset)
    if rows and is_of_another_copy(rows[0], progress):
        # Also where cuts do not fit: those of an epoch that has begun since take their place.
        yield warning(
            LAKE,
            "it holds the tables of an earlier copy",
            "walbridge materialize replaces them; walbridge status shows when it has",
        )
    elif rows and rows[0].next_offset > kept.end:
        yield refused(LAKE, cuts_made_anew())
    elif kept.first is not None and (fault := cut_fault(state.in_epoch_of(kept.first).last_cut, kept.first)):
        unfit = cuts_unfit(state.last_cut, kept.first, fault)
        yield refused(LAKE, lake_may_lack_storage(settings.lake.path, unfit) if not rows else unfit)


def is_of_another_copy(row: CutRow, progress: Progress | None) -> bool:
    """Whether all tables were copied again since, so that the job goes on with these copies whatever came before."""
    return progress is not None and progress.consistent_point is not None and row.epoch != str(progress.epoch)


def table_findings(settings: Settings) -> Iterator[Finding]:
    """Whether the tables of the newest row exist. The job would notice a missing one only at its next change."""
    path = settings.lake.path
    if "://" in path:
        return
    rows = newest_two(settings)
    tables = next((row.tables for row in rows if row.kind != "plan"), ())
    for entry in sorted(tables, key=lambda entry: entry.qualified_name):
        if (
            entry.version is None
            or entry.is_dropped
            or entry.state in AWAITING_COPY
            or rows[0].pipeline != settings.name
        ):
            continue
        how = _how_lost(Path(path) / entry.path, entry.version)
        if how is not None:
            what = f"{table_lost(entry.path, how).what}: readers of {entry.qualified_name} fail"
            yield error(LAKE, what, copy_command(entry.qualified_name))


def _how_lost(folder: Path, version: int) -> str | None:
    """Judged by names and sizes of files only: opening hundreds of tables takes too long."""
    try:
        found = files_in(folder)
    except (FileNotFoundError, NotADirectoryError):
        return "is gone"
    names = [file.base_name for file in found]
    newest = max((int(name[:VERSION_DIGITS]) for name in names if name[:VERSION_DIGITS].isdecimal()), default=-1)
    if newest < version:
        return f"is at version {newest}, before version {version} that was published"
    empty = LogFiles.listed(found).empty_of(version)
    return f"cannot be read: {empty_commits(empty)}" if empty else None


def newest_two(settings: Settings) -> list[CutRow]:
    """The newest row of ``_cuts``, and one before it. None also where the path leads to no folder: that it cannot be
    written is told.

    Raises:
        OperatorError: whether there is one cannot be seen.
        RetryableError: it cannot be read.
    """
    if "://" not in settings.lake.path and not Path(settings.lake.path).is_dir():
        return []
    options = flatten(settings.lake.storage_options)
    try:
        table = open_table(settings.lake.path, options)
        return newest_rows(table, 2) if table is not None else []
    except (DeltaError, OSError) as failure:
        if isinstance(told := classified_error(failure), WalbridgeError):  # as a job meets it
            raise told from failure
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
        return refused(LAKE, unwritable_lake(path, failure))
    return ok(LAKE, f"{path} can be written")
