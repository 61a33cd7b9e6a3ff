"""An identity of this process, by which another process on the same machine can tell whether it still runs.

In: nothing, or the identity of a process. Out: an identity that no other process ever has: the boot of the machine, the
namespace of process ids (a container has its own), the process id and its start time. A process id alone is used again.
"""

import os
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


def own_process() -> str:
    """The identity of this process; empty where the machine does not tell."""
    return _identity(os.getpid())


def is_alive(process: str) -> bool | None:
    """Whether the process with this identity still runs; None where this machine cannot know."""
    machine, _, _ = process.rpartition("/")
    machine, _, pid = machine.rpartition("/")
    if not pid.isdecimal() or machine != _machine():
        return None
    return _identity(int(pid)) == process


def _identity(pid: int) -> str:
    try:
        # The name, in brackets, may hold anything. The twentieth field behind it is the start, in ticks since the boot.
        began = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "" if began[0] in "ZX" else f"{_machine()}/{pid}/{began[19]}"
    except (OSError, IndexError):
        return ""


def _machine() -> str:
    try:
        return f"{_BOOT.read_text().strip()}/{_NAMESPACE.readlink()}"
    except OSError:
        return ""
