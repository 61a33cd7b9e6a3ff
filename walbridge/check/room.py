"""Whether a disk that walbridge fills has room, checked before it is full.

In: a folder, made or not. Out: a finding where little is left. Only the bytes that this user may take count.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from walbridge.check.finding import Finding, error, warning

NEARLY_NONE_BYTES = 64 * 2**20
"""Less free space than any plan or transaction needs."""


def room_findings(area: str, folder: Path, low_bytes: int, remedy: str) -> Iterator[Finding]:
    """A warning below ``low_bytes``, an error where almost nothing is free; None where the disk cannot be asked."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.is_dir())
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        return
    if free < low_bytes:
        found = error if free < NEARLY_NONE_BYTES else warning
        yield found(
            area, f"the disk of {folder} has {mib(free)} left: with none, the program that fills it ends", remedy
        )


def mib(count_bytes: int) -> str:
    """As operators read it."""
    return f"{count_bytes // 2**20:,} MiB"
