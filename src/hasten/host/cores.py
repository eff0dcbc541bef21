"""What this process may use, which is not what the machine has.

``os.cpu_count()`` ignores affinity and container limits; control groups are read as the kernel
shows them, those of version 2 and those of version 1.
"""

import os
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


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


def throttled_s(root: Path = CGROUP_ROOT, groups: Path = OWN_GROUPS) -> float:
    """How long the control group's quota has held its processes back, so far."""
    units = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
    for folder in _folders("cpu", root, groups):
        for line in _lines(folder / "cpu.stat"):
            name, _, value = line.partition(" ")
            if name in units and value.isdigit():
                return int(value) * units[name]
    return 0.0


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
