"""Named folders under home, and one folder for each run of a server.

In: a name. Out: an existing folder, open to be entered (not listed) by the user that servers
run as. A run's folder is gone when the run ends; one whose owner was killed is removed by the
next run: a lock held by the owner tells the living from the dead, since the kernel drops it
with the process whatever the way it dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from walbridge.embedded.home import MODE, UnsafeHomeError, home, located
from walbridge.schemas.errors import OperatorError

KEEP = "keep"
OWNER = "owner.lock"


def folder(name: str) -> Path:
    """``home/<name>``, made if missing.

    Raises:
        OperatorError: home cannot be used or written.
    """
    try:
        path = home() / name
        if not path.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(MODE)
    except UnsafeHomeError as error:
        raise OperatorError(*error.args) from None
    except OSError as error:
        raise OperatorError(
            f"walbridge's own folder cannot be written: {error}", "set WALBRIDGE_HOME to a folder that can be written"
        ) from None
    return path


def place_of(name: str) -> Path:
    """The path that ``folder`` returns; makes no folder."""
    return located() / name


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file: two processes never fill the same folder at once."""
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def claimed(runs: Path, kind: str, *, keep: bool) -> tuple[Path, IO[str]]:
    """A new folder in ``runs``, and the open file whose lock says that its owner lives. Folders of owners that are gone
    are removed, unless they are kept."""
    with locked(runs / ".lock"):
        _sweep(runs)
        path = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=runs))
        owner = (path / OWNER).open("a")
        fcntl.flock(owner, fcntl.LOCK_EX)
    if keep:
        (path / KEEP).touch()
    return path, owner


class RunFolder:
    """One server's data and log: ``home/run/<kind>-<random>``.

    ``remove`` ends it; with ``keep`` it stays, also through later runs.
    """

    def __init__(self, kind: str, *, keep: bool = False) -> None:
        self.path, self._owner = claimed(folder("run"), kind, keep=keep)
        self.path.chmod(MODE)
        self.keep = keep

    def remove(self) -> None:
        self._owner.close()
        if not self.keep:
            shutil.rmtree(self.path, ignore_errors=True)


def _sweep(runs: Path) -> None:
    """Remove the folders of runs whose process is gone."""
    for run in runs.iterdir():
        if not run.is_dir() or (run / KEEP).exists():
            continue
        with contextlib.suppress(OSError):
            descriptor = os.open(run / OWNER, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(run, ignore_errors=True)
            finally:
                os.close(descriptor)
