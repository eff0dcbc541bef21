"""Control groups, as folders that look like the kernel's."""

import os
from pathlib import Path

import pytest

from hasten.host.cores import (
    cores_allowed,
    memory_allowed,
    memory_left,
    shared_memory_left,
)

GIB = 1 << 30
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
UNLIMITED_IN_VERSION_1 = "9223372036854771712"


class Groups:
    """A machine's control groups, and the list of those that this process is in."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "cgroup"
        self.listing = folder / "listing"
        self.root.mkdir()

    def limit(self, path: str, content: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content + "\n")

    def put_process_in(self, *lines: str) -> None:
        self.listing.write_text("".join(f"{line}\n" for line in lines))

    def cores(self) -> float:
        return cores_allowed(self.root, self.listing)

    def memory(self, total: int = 64 * GIB) -> int:
        return memory_allowed(total, self.root, self.listing)


@pytest.fixture
def groups(tmp_path: Path) -> Groups:
    return Groups(tmp_path)


def test_without_control_groups_affinity_and_the_machine_decide(groups: Groups) -> None:
    assert groups.cores() == CORES
    assert groups.memory() == 64 * GIB


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity")
def test_affinity_counts_and_not_the_cores_of_the_machine(groups: Groups) -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert groups.cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_a_quota_of_version_2_may_be_a_fraction_of_a_core(groups: Groups) -> None:
    groups.put_process_in("0::/")
    groups.limit("cpu.max", "50000 100000")
    assert groups.cores() == 0.5


def test_a_quota_beyond_the_affinity_changes_nothing(groups: Groups) -> None:
    groups.put_process_in("0::/")
    groups.limit("cpu.max", "99900000 100000")
    assert groups.cores() == CORES


@pytest.mark.parametrize("content", ["max 100000", "", "max", "50000 0", "-1 100000"])
def test_a_quota_of_version_2_that_limits_nothing_is_no_limit(groups: Groups, content: str) -> None:
    groups.put_process_in("0::/")
    groups.limit("cpu.max", content)
    assert groups.cores() == CORES


def test_memory_of_version_2_is_the_smaller_of_limit_and_machine(groups: Groups) -> None:
    groups.put_process_in("0::/")
    groups.limit("memory.max", str(4 * GIB))
    assert groups.memory() == 4 * GIB
    assert groups.memory(total=2 * GIB) == 2 * GIB


def test_memory_of_version_2_without_a_limit_is_the_machine(groups: Groups) -> None:
    groups.put_process_in("0::/")
    groups.limit("memory.max", "max")
    assert groups.memory() == 64 * GIB


def test_the_own_group_of_version_2_binds(groups: Groups) -> None:
    groups.put_process_in("0::/user.slice/job.scope")
    groups.limit("user.slice/job.scope/cpu.max", "25000 100000")
    groups.limit("user.slice/job.scope/memory.max", str(GIB))
    assert groups.cores() == 0.25
    assert groups.memory() == GIB


def test_a_limit_in_a_group_above_binds_too(groups: Groups) -> None:
    groups.put_process_in("0::/kube/pod/container")
    groups.limit("kube/pod/container/cpu.max", "max 100000")
    groups.limit("kube/pod/container/memory.max", str(8 * GIB))
    groups.limit("kube/pod/cpu.max", "75000 100000")
    groups.limit("kube/memory.max", str(3 * GIB))
    assert groups.cores() == 0.75
    assert groups.memory() == 3 * GIB


def test_the_tightest_of_nested_limits_binds(groups: Groups) -> None:
    groups.put_process_in("0::/outer/inner")
    groups.limit("outer/inner/cpu.max", "10000 100000")
    groups.limit("outer/cpu.max", "90000 100000")
    assert groups.cores() == 0.1


def test_the_group_of_another_process_does_not_bind(groups: Groups) -> None:
    groups.put_process_in("0::/mine")
    groups.limit("mine/cpu.max", "max 100000")
    groups.limit("other/cpu.max", "10000 100000")
    groups.limit("other/memory.max", str(GIB))
    assert groups.cores() == CORES
    assert groups.memory() == 64 * GIB


def test_a_file_above_the_root_is_not_read(groups: Groups, tmp_path: Path) -> None:
    groups.put_process_in("0::/mine")
    (tmp_path / "memory.max").write_text("1\n")
    assert groups.memory() == 64 * GIB


def test_in_a_container_the_root_is_the_own_group(groups: Groups) -> None:
    """The listing shows the host's path, the file system only what is below the container."""
    groups.put_process_in("0::/system.slice/docker-1234.scope")
    groups.limit("cpu.max", "50000 100000")
    groups.limit("memory.max", str(2 * GIB))
    assert groups.cores() == 0.5
    assert groups.memory() == 2 * GIB


def test_version_1_has_a_hierarchy_for_each_controller(groups: Groups) -> None:
    groups.put_process_in("4:memory:/", "3:cpu,cpuacct:/", "1:name=systemd:/")
    groups.limit("cpu/cpu.cfs_quota_us", "50000")
    groups.limit("cpu/cpu.cfs_period_us", "100000")
    groups.limit("memory/memory.limit_in_bytes", str(2 * GIB))
    assert groups.cores() == 0.5
    assert groups.memory() == 2 * GIB


def test_version_1_without_limits_is_the_machine(groups: Groups) -> None:
    groups.put_process_in("4:memory:/", "3:cpu,cpuacct:/")
    groups.limit("cpu/cpu.cfs_quota_us", "-1")
    groups.limit("cpu/cpu.cfs_period_us", "100000")
    groups.limit("memory/memory.limit_in_bytes", UNLIMITED_IN_VERSION_1)
    assert groups.cores() == CORES
    assert groups.memory() == 64 * GIB


def test_nested_limits_of_version_1_bind_each_in_its_hierarchy(groups: Groups) -> None:
    groups.put_process_in("7:memory:/slurm/job/step", "5:cpu,cpuacct:/slurm", "0::/")
    groups.limit("memory/slurm/job/memory.limit_in_bytes", str(5 * GIB))
    groups.limit("memory/slurm/memory.limit_in_bytes", UNLIMITED_IN_VERSION_1)
    groups.limit("cpu/slurm/cpu.cfs_quota_us", "30000")
    groups.limit("cpu/slurm/cpu.cfs_period_us", "100000")
    assert groups.cores() == 0.3
    assert groups.memory() == 5 * GIB


def test_a_container_on_version_1_is_limited_by_its_root(groups: Groups) -> None:
    groups.put_process_in("7:memory:/docker/1234", "5:cpu,cpuacct:/docker/1234")
    groups.limit("memory/memory.limit_in_bytes", str(GIB))
    groups.limit("cpu/cpu.cfs_quota_us", "20000")
    groups.limit("cpu/cpu.cfs_period_us", "100000")
    assert groups.cores() == 0.2
    assert groups.memory() == GIB


def test_a_path_may_hold_colons(groups: Groups) -> None:
    groups.put_process_in("0::/a:b/c:d")
    groups.limit("a:b/c:d/cpu.max", "50000 100000")
    assert groups.cores() == 0.5


def test_this_very_process_may_use_some_cores_and_some_memory() -> None:
    assert 0 < cores_allowed() <= CORES
    assert 0 < memory_allowed(64 * GIB) <= 64 * GIB


def test_memory_left_is_what_the_group_has_not_used_and_files_give_way(groups: Groups) -> None:
    groups.put_process_in("0::/job")
    groups.limit("job/memory.max", str(1000))
    groups.limit("job/memory.current", str(900))
    groups.limit("job/memory.stat", "anon 500\ninactive_file 300\nactive_file 50")
    assert memory_left(groups.root, groups.listing) == 400
    groups.limit("memory.max", str(2000))
    groups.limit("memory.current", str(1900))
    assert memory_left(groups.root, groups.listing) == 100


def test_memory_left_of_version_1_counts_all_below(groups: Groups) -> None:
    groups.put_process_in("4:memory:/job")
    groups.limit("memory/job/memory.limit_in_bytes", str(1000))
    groups.limit("memory/job/memory.usage_in_bytes", str(1200))
    groups.limit("memory/job/memory.stat", "inactive_file 0\ntotal_inactive_file 150")
    assert memory_left(groups.root, groups.listing) == 0  # not less than nothing


def test_without_a_limit_the_machine_has_what_is_available(groups: Groups) -> None:
    groups.put_process_in("0::/")
    groups.limit("memory.max", "max")
    groups.limit("memory.current", "5")
    assert memory_left(groups.root, groups.listing) > 1 << 20


def test_shared_memory_is_that_of_its_folder(tmp_path: Path) -> None:
    assert shared_memory_left(tmp_path) > 0
    assert shared_memory_left(tmp_path / "nowhere") == 0
