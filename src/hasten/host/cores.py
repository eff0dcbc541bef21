"""What this process may use, which is not what the machine has.

``os.cpu_count()`` ignores affinity and container limits; control groups are read as the kernel
shows them, those of version 2 and those of version 1.
"""

import os
from pathlib import Path

import psutil

CGROUP_ROOT = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
SHARED_MEMORY = Path("/dev/shm")


def cores_allowed(root: Path = CGROUP_ROOT, groups: Path = OWN_GROUPS) -> float:
    """Cores by affinity, or fewer by the control group's quota, which may be a fraction."""
    affinity = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quotas = [_quota_of(folder) for folder in _folders("cpu", root, groups)]
    return min([float(affinity), *(quota for quota in quotas if quota is not None)])


def memory_allowed(total_bytes: int, root: Path = CGROUP_ROOT, groups: Path = OWN_GROUPS) -> int:
    """The machine's memory, or less by the control group's limit."""
    names = ("memory.max", "memory.limit_in_bytes")
    folders = _folders("memory", root, groups)
    limits = [_first_line(folder / name) for folder in folders for name in names]
    return min([total_bytes, *(int(limit) for limit in limits if limit.isdigit())])


def memory_left(root: Path = CGROUP_ROOT, groups: Path = OWN_GROUPS) -> int:
    """Bytes that this process may still take: what the machine has available, or less by what is
    left of a control group's limit. Files that the kernel keeps in memory give way, and count as
    left."""
    left = [_left_in(folder) for folder in _folders("memory", root, groups)]
    available = psutil.virtual_memory().available
    return max(min([available, *(each for each in left if each is not None)]), 0)


def shared_memory_left(folder: Path = SHARED_MEMORY) -> int:
    """Bytes that processes may still hand each other; 0 where there is no such folder."""
    try:
        stats = os.statvfs(folder)
    except OSError:
        return 0
    return stats.f_bavail * stats.f_frsize


def throttled_s(root: Path = CGROUP_ROOT, groups: Path = OWN_GROUPS) -> float:
    """How long the control group's quota has held its processes back, so far."""
    units = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
    for folder in _folders("cpu", root, groups):
        for line in _lines(folder / "cpu.stat"):
            name, _, value = line.partition(" ")
            if name in units and value.isdigit():
                return int(value) * units[name]
    return 0.0


def _left_in(folder: Path) -> int | None:
    """None where this control group has no limit."""
    for limit_name, used_name in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        limit, used = _first_line(folder / limit_name), _first_line(folder / used_name)
        if limit.isdigit() and used.isdigit():
            return int(limit) - int(used) + _cached_in(folder)
    return None


def _cached_in(folder: Path) -> int:
    names = ("inactive_file", "total_inactive_file")
    found = [line.split() for line in _lines(folder / "memory.stat")]
    return max([int(each[1]) for each in found if each and each[0] in names], default=0)


def _folders(controller: str, root: Path, groups: Path) -> list[Path]:
    """The folders of this process's control groups and of all above them: a limit there binds too.

    In a container a group's own folder is often not to be seen; the root is then that group.
    """
    folders = []
    for top, path in (
        (root, _path_in(groups, "")),
        (root / controller, _path_in(groups, controller)),
    ):
        own = top / path.lstrip("/")
        folders += [own, *(each for each in own.parents if each.is_relative_to(top))]
    return folders


def _path_in(groups: Path, controller: str) -> str:
    """Of this process in the hierarchy of a controller; version 2 has one, without a name."""
    for line in _lines(groups):
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    return "/"


def _quota_of(folder: Path) -> float | None:
    quota, _, period = _first_line(folder / "cpu.max").partition(" ")
    if not quota:
        quota = _first_line(folder / "cpu.cfs_quota_us")
        period = _first_line(folder / "cpu.cfs_period_us")
    if not (quota.isdigit() and period.isdigit()) or not int(period):
        return None  # "max" or -1: no limit
    return int(quota) / int(period)


def _first_line(path: Path) -> str:
    return next(iter(_lines(path)), "")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []  # not Linux, or this file does not exist in this version of control groups
