"""A file on this machine that says how a program's last run ended, until Kafka or the lake has the same record.

In: settings, a record. Out: a file in a folder of this user only, replaced as a whole. The program's next start reads
it, and so does ``walbridge status`` of this user on this machine. Without a setting for the folder, the file is written
to the first of several folders that can be written, since a full disk may be what ended the program; all are read.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from walbridge.runtime.whole_file import replace_file
from walbridge.schemas.control.run_record import PRODUCER, Run, decode_run, encode_run
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.settings import Settings

_FOLDERS = ("/var/tmp", "/tmp")
"""The first one survives a restart of the machine."""


class LocalEnd:
    """The file of one program of one pipeline."""

    def __init__(self, settings: Settings, program: str) -> None:
        slot = f"-{settings.postgres.slot}" if program == PRODUCER else ""
        self.paths = local_paths(settings, f"{settings.name}{slot}-{_peers(settings)}-{program}.json")

    def read(self) -> Run | None:
        """The newest record in any of the folders; None where there is none by this user."""
        return max(filter(None, map(_read, self.paths)), key=lambda run: run.seen, default=None)

    def write(self, run: Run) -> None:
        """Write the record; durable when this returns.

        Raises:
            OSError: none of the folders can be written.
        """
        write_first(self.paths, encode_run(run))

    def remove(self) -> None:
        """Delete the file: the record is in Kafka or the lake by now."""
        for path in self.paths:
            with suppress(OSError):
                if _is_ours(path.parent):
                    path.unlink(missing_ok=True)


def _peers(settings: Settings) -> str:
    """Tells pipelines of one name on this machine apart, which are on other clusters."""
    told = f"{settings.kafka.bootstrap_servers}\n{settings.lake.path}"
    return hashlib.sha256(told.encode(errors="surrogateescape")).hexdigest()[:8]


def local_paths(settings: Settings, name: str) -> tuple[Path, ...]:
    """The paths that a file of this name may have, the preferred one first."""
    return tuple(folder / name for folder in _folders(settings))


def write_first(paths: tuple[Path, ...], data: bytes) -> Path:
    """Write a file to the first path that can be written, readable by this user only and durable when this returns; the
    path.

    Raises:
        OSError: none can be written.
    """
    for path in paths:
        try:
            _write(path, data)
        except OSError:
            if path == paths[-1]:
                raise
        else:
            return path
    raise FileNotFoundError(2, "no folder is named")


def _folders(settings: Settings) -> list[Path]:
    if settings.metrics.state_dir:
        return [Path(settings.metrics.state_dir)]
    given = os.environ.get("TMPDIR")
    return [Path(each) / f"walbridge-{os.geteuid()}" for each in ([given] if given else []) + [*_FOLDERS]]


def _is_ours(folder: Path) -> bool:
    """Whether the folder belongs to this user: in ``/tmp`` anybody may make one of this name."""
    return not folder.is_symlink() and folder.stat().st_uid == os.geteuid()


def _read(path: Path) -> Run | None:
    try:
        return decode_run(path.read_bytes()) if _is_ours(path.parent) else None
    except (OSError, ProtocolError):
        return None


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_ours(path.parent):
        raise PermissionError(0, "another user's folder")
    replace_file(path, data)
