"""Limits of control groups, from files as Linux lays them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from walbridge.runtime.cgroup_limits import CgroupLimits, cgroup_limits

V1 = "9:name=systemd:/a\n4:memory:/docker/a\n2:cpu,cpuacct:/docker/a\n0::/\n"
NO_LIMIT = "9223372036854771712\n"


def limits(root: Path, groups: str, files: dict[str, str]) -> CgroupLimits:
    for name, text in {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{n}": t for n, t in files.items()}}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return cgroup_limits(root)


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/\n", {"memory.max": "268435456\n", "cpu.max": "150000 100000\n"}, CgroupLimits(2**28, 1.5)),
        ("0::/\n", {"memory.max": "max\n", "cpu.max": "max 100000\n"}, CgroupLimits()),
        ("0::/\n", {"memory.max": "4096\n", "memory.high": "1024\n"}, CgroupLimits(1024)),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "512\n", "memory.max": "900\n"}, CgroupLimits(512)),
        ("0::/../elsewhere\n", {"memory.max": "77\n"}, CgroupLimits(77)),
        (V1, {"memory/docker/a/memory.limit_in_bytes": "1000\n"}, CgroupLimits(1000)),
        (V1, {"memory/memory.limit_in_bytes": "2000\n"}, CgroupLimits(2000)),
        (V1, {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, CgroupLimits(None, 2.0)),
        (V1, {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, CgroupLimits()),
        (V1, {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "0\n"}, CgroupLimits()),
        ("nothing that is known", {"memory.max": ""}, CgroupLimits()),
    ],
)
def test_lowest_limit_of_all_groups_is_found(
    tmp_path: Path, groups: str, files: dict[str, str], expected: CgroupLimits
) -> None:
    assert limits(tmp_path, groups, files) == expected


def test_group_of_version_one_without_a_limit_has_more_memory_than_there_is(tmp_path: Path) -> None:
    found = limits(tmp_path, V1, {"memory/docker/a/memory.limit_in_bytes": NO_LIMIT}).memory_bytes
    assert found is not None
    assert found > 2**60


def test_machine_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    assert cgroup_limits(tmp_path) == CgroupLimits()
