"""The demo's folder: settings, logs and lake of one run, under ``home/demo``.

In: whether to keep it. Out: a folder that the next demo removes, unless it is kept or still in
use: a lock that its owner holds tells the living from the dead, since the kernel drops it with
the process. So the tables stay to be looked at after the demo, but never pile up.
"""

from pathlib import Path

from walbridge.embedded.folders import claimed, folder


class DemoFolder:
    """The folder of one run."""

    def __init__(self, *, keep: bool) -> None:
        self.path, self._owner = claimed(folder("demo"), "demo", keep=keep)
        self.scratch.mkdir()

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
