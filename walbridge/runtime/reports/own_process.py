"""Which process this is, so that another one on the machine can tell whether it lives.

In: nothing, or what a process said of itself. Out: an identity that no other process ever has: the boot of the machine,
the namespace of its process ids (a container has its own), its id, and when it began. An id alone comes again.
"""

import os
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


def own_process() -> str:
    """Of this one; empty where the machine does not tell."""
    return _identity(os.getpid())


def is_alive(process: str) -> bool | None:
    """Whether it lives; None where this machine cannot know."""
    machine, _, _ = process.rpartition("/")
    machine, _, pid = machine.rpartition("/")
    if not pid.isdecimal() or machine != _machine():
        return None
    return _identity(int(pid)) == process


def _identity(pid: int) -> str:
    try:
        # The name, in brackets, may hold anything; of what follows the twentieth is the start, in ticks since the boot.
        began = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "" if began[0] in "ZX" else f"{_machine()}/{pid}/{began[19]}"
    except (OSError, IndexError):
        return ""


def _machine() -> str:
    try:
        return f"{_BOOT.read_text().strip()}/{_NAMESPACE.readlink()}"
    except OSError:
        return ""
