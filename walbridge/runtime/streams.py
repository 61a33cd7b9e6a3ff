"""stdout and stderr of a program or verb, which may be closed, on a full disk, or of an encoding with few characters.

In: the streams of the process. Out: streams that are there, and a stderr whose write errors are ignored, since the
program does not depend on its log lines; and, for a verb whose output cannot be printed, the error that says why. What
waits in the buffer of stdout is written while that can still be told: Python itself writes it after the exit code.
"""

import codecs
import errno
import os
import sys
from pathlib import Path
from typing import Any, TextIO, cast

from walbridge.schemas.errors import OperatorError

EXIT_UNREAD = 141
"""The exit code that a shell shows for a program that SIGPIPE ended."""
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}


class TolerantStream:
    """A stream for log lines that ignores errors of writing: a full disk, or a pipe that was closed."""

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


def hold_streams() -> None:
    """Have all three streams, and a stderr that ignores errors of writing.

    In place of one that is closed the next file or connection would get its number, and then our log lines, or what a
    library prints. In the order of their numbers, since the lowest free one is taken.
    """
    null = Path(os.devnull)
    sys.stdin = sys.stdin or null.open()
    sys.stdout = sys.stdout or null.open("w")
    sys.stderr = sys.stderr or null.open("w")
    if not isinstance(sys.stderr, TolerantStream):
        sys.stderr = cast(TextIO, TolerantStream(sys.stderr))


def refused_print(error: OSError | UnicodeEncodeError) -> OperatorError | None:
    """The error for a verb that could not print; None where the error is not about printing."""
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


def flush_output() -> None:
    """Write what was printed and waits in the buffer of stdout.

    Raises:
        OSError: it cannot be written. From now on it goes nowhere: else Python tries once more at the end, and ends
            with code 120 (its manual, ``sys.exit``).
    """
    try:
        sys.stdout.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        raise


def nobody_reads(end: SystemExit) -> bool:
    """Whether it ends since the reader of stdout closed the pipe: so typer and rich tell it."""
    return isinstance(end.__context__, BrokenPipeError)


def _is_encoding_of_stdout(name: str) -> bool:
    used = getattr(sys.stdout, "encoding", None)
    return used is not None and codecs.lookup(used) == codecs.lookup(name)
