"""The demo's folder: settings, logs and lake of one run, under ``home/demo``.

In: whether to keep it. Out: a folder that the next demo removes, unless it is kept or still in
use: a lock that its owner holds tells the living from the dead, since the kernel drops it with
the process. So the tables stay to be looked at after the demo, but never pile up.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from walbridge.embedded.folders import KEEP, OWNER, folder, locked


class DemoFolder:
    """The folder of one run."""

    def __init__(self, *, keep: bool) -> None:
        runs = folder("demo")
        with locked(runs / ".lock"):
            _remove_older(runs)
            self.path = Path(tempfile.mkdtemp(prefix="demo-", dir=runs))
            self._owner = (self.path / OWNER).open("a")
            fcntl.flock(self._owner, fcntl.LOCK_EX)
        self.scratch.mkdir()
        if keep:
            (self.path / KEEP).touch()

    @property
    def config(self) -> Path:
        """The settings file."""
        return self.path / "walbridge.toml"

    @property
    def lake(self) -> Path:
        """The folder of the lake."""
        return self.path / "lake"

    @property
    def scratch(self) -> Path:
        """For Spark's own files, which a killed job leaves behind."""
        return self.path / "scratch"

    def log(self, program: str) -> Path:
        """The log of a program."""
        return self.path / f"{program}.log"

    def release(self) -> None:
        """Allow the next demo to remove the folder."""
        self._owner.close()


def _remove_older(runs: Path) -> None:
    for run in runs.iterdir():
        if not run.is_dir() or (run / KEEP).exists():
            continue
        descriptor = os.open(run / OWNER, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(run, ignore_errors=True)
        except BlockingIOError:
            pass  # a demo that is running
        finally:
            os.close(descriptor)
