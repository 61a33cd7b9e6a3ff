"""``<lake>/_newest_cut.json``: the newest published row of ``_cuts``, for programs that read no Delta table of cuts.

In: published rows, after each is in ``_cuts``. Out: one small file, replaced as a whole. Nothing of walbridge reads it,
and it decides nothing. A job that is killed before it has written leaves the file of an earlier cut, whose versions
never change: it is old and not wrong (I8). A lake that is begun anew has none before its first published cut.
"""

import json
from datetime import datetime
from pathlib import Path

import structlog
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler

from walbridge.runtime.whole_file import replace_file
from walbridge.schemas.position import format_lsn
from walbridge.spark_consumer.delta.folder import local_folder, put_object
from walbridge.spark_consumer.plan.manifest_row import CutRow, by_name

log = structlog.get_logger()

NEWEST_CUT_FILE = "_newest_cut.json"
FORMAT = 1
"""Of the file; docs/cuts.md says what is in it."""


def newest_cut_json(row: CutRow) -> str:
    """A published row as JSON. LSNs are text: they have 64 bits, and numbers of JavaScript 53."""
    tables = [
        {
            "schema": entry.namespace,
            "table": entry.name,
            "path": entry.path,
            "version": entry.version,
            "state": entry.state,
            "since": _lsn(entry.since),
            "why": entry.why,
        }
        for _, entry in sorted(by_name(row.tables).items())
    ]
    cut = {
        "format": FORMAT,
        "pipeline": row.pipeline,
        "epoch": row.epoch,
        "sequence": row.sequence,
        "end_lsn": format_lsn(row.end_lsn),
        "commit_time": _time(row.commit_time),
        "written_at": _time(row.written_at),
        "tables": tables,
    }
    return json.dumps(cut, ensure_ascii=False) + "\n"


class NewestCutFile:
    """The file of one lake. A failed write is logged once, and stops nothing."""

    def __init__(self, lake: str, storage_options: dict[str, str]) -> None:
        self._lake, self._storage_options = lake.rstrip("/"), storage_options
        self._is_failing = False

    def write(self, row: CutRow) -> None:
        """Replace the file."""
        try:
            self._replace(newest_cut_json(row).encode())
            self._is_failing = False
        except (DeltaError, OSError) as error:
            if not self._is_failing:
                log.warning(f"{NEWEST_CUT_FILE} is not written: it tells of no newer cut", why=type(error).__name__)
            self._is_failing = True

    def _replace(self, content: bytes) -> None:
        file = self._local_file()
        if file is None:
            put_object(self._lake, NEWEST_CUT_FILE, content, self._storage_options)
        else:
            replace_file(file, content, mode=0o644)  # for readers of any user

    def remove(self) -> None:
        """Delete the file where a lake begins: it would be of an earlier lake.

        Raises:
            DeltaError, OSError: it may still be there.
        """
        file = self._local_file()
        if file is not None:
            file.unlink(missing_ok=True)
            return
        try:
            DeltaStorageHandler(self._lake, self._storage_options or None).delete_file(NEWEST_CUT_FILE)
        except FileNotFoundError:
            return

    def _local_file(self) -> Path | None:
        """The file's path; None on an object store."""
        folder = local_folder(self._lake)
        return None if folder is None else folder / NEWEST_CUT_FILE


def _lsn(lsn: int | None) -> str | None:
    return None if lsn is None else format_lsn(lsn)


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat(timespec="microseconds").replace("+00:00", "Z")
