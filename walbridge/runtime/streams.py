"""What a program or verb says to: stdout and stderr, which may be closed, full, or know few letters.

In: the streams of the process. Out: a log of which lines are left out where they find no room, since nothing that the
program does depends on them; and, for what a verb prints, which is all that it is for, the error that says why.
"""

import codecs
import errno
import os
import sys
from pathlib import Path
from typing import Any, TextIO, cast

from walbridge.schemas.errors import OperatorError

EXIT_UNREAD = 141
"""As the shell tells of a program that SIGPIPE ended."""
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}


class LastingLog:
    """A stream for lines of a log: one that is full, or that nobody reads any more, ends nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def outlast_stderr() -> None:
    """From now on nobody has to read what is said, and there is somewhere to say it."""
    if sys.stderr is None:  # closed: its number would be that of the next file or connection, which gets our words then
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    if not isinstance(sys.stderr, LastingLog):
        sys.stderr = cast(TextIO, LastingLog(sys.stderr))


def refused_print(error: OSError | UnicodeEncodeError) -> OperatorError | None:
    """What it means that a verb could not print; None for an error of anything else."""
    if isinstance(error, UnicodeEncodeError):
        if not _is_encoding_of_stdout(error.encoding):
            return None
        return OperatorError(
            f"what is printed has signs that {error.encoding} lacks, in which it is to be written here",
            remedy="set PYTHONIOENCODING=utf-8, then run the command again",
        )
    if error.errno in _NO_ROOM:
        return OperatorError(
            f"what is printed, or a file, cannot be written: {os.strerror(error.errno or 0)}",
            remedy="make room on its disk, then run the command again",
        )
    return None


def nobody_reads() -> bool:
    """Whether the end of a pipe that stdout is has been closed, as typer leaves it."""
    return type(sys.stdout).__name__ == "PacifyFlushWrapper"


def _is_encoding_of_stdout(name: str) -> bool:
    used = getattr(sys.stdout, "encoding", None)
    return used is not None and codecs.lookup(used) == codecs.lookup(name)
