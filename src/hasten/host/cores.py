"""What this process may use, which is not what the machine has.

``os.cpu_count()`` ignores affinity and container limits; the control group is read as the kernel
shows it, version 2 first, then version 1.
"""

import os
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")


def cores_allowed(cgroup: Path | None = None) -> float:
    """Cores by affinity, or fewer by the control group's quota, which may be a fraction."""
    affinity = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota = _cpu_quota(cgroup or own_cgroup())
    return float(affinity) if quota is None else min(float(affinity), quota)


def memory_allowed(total_bytes: int, cgroup: Path | None = None) -> int:
    """The machine's memory, or less by the control group's limit."""
    limit = _smallest_limit(cgroup or own_cgroup())
    return total_bytes if limit is None else min(total_bytes, limit)


def own_cgroup(listing: Path = Path("/proc/self/cgroup"), root: Path = CGROUP_ROOT) -> Path:
    """The folder of this process's control group; in a container that is usually the root."""
    for line in _lines(listing):
        hierarchy, _, path = line.split(":", 2)
        if hierarchy == "0":
            folder = root / path.lstrip("/")
            return folder if folder.is_dir() else root
    return root


def _cpu_quota(folder: Path) -> float | None:
    quotas = [quota for each in _up_to_root(folder) if (quota := _quota_of(each)) is not None]
    return min(quotas, default=None)


def _quota_of(folder: Path) -> float | None:
    quota, _, period = _first_line(folder / "cpu.max").partition(" ")
    if not quota:
        quota = _first_line(folder / "cpu/cpu.cfs_quota_us")
        period = _first_line(folder / "cpu/cpu.cfs_period_us")
    if not (quota.isdigit() and period.isdigit()) or not int(period):
        return None  # "max" or -1: no limit
    return int(quota) / int(period)


def _smallest_limit(folder: Path) -> int | None:
    names = ("memory.max", "memory/memory.limit_in_bytes")
    limits = [_first_line(each / name) for each in _up_to_root(folder) for name in names]
    return min((int(limit) for limit in limits if limit.isdigit()), default=None)


def _up_to_root(folder: Path) -> list[Path]:
    """A limit anywhere above binds too."""
    inside = [each for each in folder.parents if each.is_relative_to(CGROUP_ROOT)]
    return [folder, *inside]


def _first_line(path: Path) -> str:
    return next(iter(_lines(path)), "")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []  # not Linux, or this file does not exist in this version of control groups
