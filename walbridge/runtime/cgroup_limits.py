"""How much memory and how many cores the control groups of this process leave it, as containers and service managers
set them.

In: the files of Linux' control groups, version 2 or 1. Out: bytes and cores; None where nobody set a limit. A limit
holds for all groups below its own, so those above count as well. A container may see its own group as the root,
whatever ``/proc`` calls it: folders that are not there are passed over, and the root is always looked at.

Source: cgroups(7); Linux, "Control Group v2", memory.max and cpu.max; for version 1 "Memory Resource Controller" and
"CFS Bandwidth Control".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MEMORY = ("memory.max", "memory.high", "memory.limit_in_bytes")
_CORES = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
"""Each tells how long processes may run in how long a period."""


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """``cores``: as many as would run all the time."""

    memory_bytes: int | None = None
    cores: float | None = None


def cgroup_limits(root: Path = Path("/")) -> CgroupLimits:
    """The lowest limits of all that hold; what cannot be read is none."""
    memory: list[int] = []
    cores: list[float] = []
    for folder in _groups(root):
        memory += [int(word) for name in _MEMORY for word in _words(folder / name) if word.isdigit()]
        for names in _CORES:
            told = [word for name in names for word in _words(folder / name)]
            if len(told) == 2 and all(word.isdigit() and int(word) for word in told):  # max, or -1, is no limit
                cores.append(int(told[0]) / int(told[1]))
    return CgroupLimits(min(memory, default=None), min(cores, default=None))


def _groups(root: Path) -> Iterator[Path]:
    """Folders of the groups that this process is in, and of those above them."""
    for line in _words(root / "proc/self/cgroup", "\n"):
        _number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):  # of version 2 none is named
            mount = root / "sys/fs/cgroup" / controller
            group = mount / path.strip("/")
            yield from (each for each in (group, *group.parents) if each.is_relative_to(mount))


def _words(path: Path, separator: str | None = None) -> list[str]:
    try:
        return path.read_text().strip().split(separator)
    except (OSError, UnicodeDecodeError):
        return []
