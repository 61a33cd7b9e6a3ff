"""What this machine refuses to a program: threads, memory, files.

In: an exception that nothing foresaw, since almost any line may raise it. Out: the error that names the limit. Python
has no class of its own for a thread that cannot start, and none for a library that finds no room, so these are known by
their words, which hold no values.
"""

import errno

from walbridge.schemas.errors import OperatorError

_NO_THREAD = "can't start new thread"
_NO_ROOM_FOR_LIBRARY = "failed to map segment from shared object"
_GO_ON = "then start again: nothing is lost"


def refused_by_machine(error: BaseException) -> OperatorError | None:
    """The error for an exception by which the machine refuses what any program needs; None where it means a bug."""
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.EMFILE, errno.ENFILE):
        return OperatorError(
            "this user, or this machine, may have no more files open",
            remedy=f"raise the limit (ulimit -n, or LimitNOFILE= of systemd), {_GO_ON}",
        )
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return OperatorError(
            "this machine lets the program start no more threads",
            remedy="raise the limit of processes (ulimit -u, TasksMax= of systemd, or the container's limit of pids) "
            f"and of memory (ulimit -v), {_GO_ON}",
        )
    if isinstance(error, MemoryError) or number == errno.ENOMEM or _finds_no_room(error):
        return OperatorError(
            "this machine gives the program no more memory",
            remedy="give the machine or container more, or raise the limit (ulimit -v, or LimitAS= of systemd), "
            f"{_GO_ON}",
        )
    return None


def _finds_no_room(error: BaseException) -> bool:
    return isinstance(error, ImportError) and _NO_ROOM_FOR_LIBRARY in str(error)
