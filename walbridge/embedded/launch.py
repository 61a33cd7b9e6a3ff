"""Become another program, tied to the life of the one that started us.

Run as ``python -I launch.py PARENT SIGNAL UID GID PROGRAM ARGS...``: give up root if asked,
have the kernel send SIGNAL when PARENT dies, then exec. A separate program instead of code
between fork and exec, because that code would run in a copy of a process with many threads,
where a lock held by any of them is held for ever. Only the standard library.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, death_signal: int, uid: int, gid: int, command: list[str]) -> None:
    if uid != os.getuid():
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    # After setuid: the kernel forgets the signal when credentials change.
    if sys.platform == "linux" and death_signal:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    parent, death_signal, uid, gid = map(int, sys.argv[1:5])
    main(parent, death_signal, uid, gid, sys.argv[5:])
