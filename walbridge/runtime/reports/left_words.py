"""A file on this machine with how a program's last run ended, as long as its peer could not be told.

In: settings, a record. Out: a file in a folder that only this user has, replaced as a whole. The next start reads it,
and ``walbridge status`` of this user on this machine. Without a setting it is in the first of several folders that
takes it, since what ended the program may be that a disk is full; it is looked for in all.
"""

import os
from contextlib import suppress
from pathlib import Path

from walbridge.runtime.whole_file import replace_file
from walbridge.schemas.control.run_record import PRODUCER, Run, decode_run, encode_run
from walbridge.schemas.errors import ProtocolError
from walbridge.schemas.settings import Settings

_FOLDERS = ("/var/tmp", "/tmp")
"""The first outlives a start of the machine."""


class LeftWords:
    """One for each program of one pipeline."""

    def __init__(self, settings: Settings, program: str) -> None:
        slot = f"-{settings.postgres.slot}" if program == PRODUCER else ""
        self.paths = left_paths(settings, f"{settings.name}{slot}-{program}.json")

    def read(self) -> Run | None:
        """The newest that is there; None where nothing is that this user wrote."""
        return max(filter(None, map(_read, self.paths)), key=lambda run: run.seen, default=None)

    def write(self, run: Run) -> None:
        """Durable when it returns.

        Raises:
            OSError: it cannot be kept.
        """
        leave(self.paths, encode_run(run))

    def remove(self) -> None:
        """It stands elsewhere by now."""
        for path in self.paths:
            with suppress(OSError):
                if _is_ours(path.parent):
                    path.unlink(missing_ok=True)


def left_paths(settings: Settings, name: str) -> tuple[Path, ...]:
    """Where a file of this name is left, the first choice first."""
    return tuple(folder / name for folder in _folders(settings))


def leave(paths: tuple[Path, ...], data: bytes) -> Path:
    """Left in the first folder that takes it, for this user alone, and durable when it returns. Which path it is.

    Raises:
        OSError: none takes it.
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
    """Anybody may make one of this name in a folder for all."""
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
