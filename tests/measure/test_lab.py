"""Files that workers hand each other through the lab."""

import os

import pytest

from hasten.measure import lab as labs
from hasten.measure.lab import Lab

SIZE = 1000


def test_a_large_file_lies_in_memory_and_is_gone_with_the_lab() -> None:
    if not hasattr(os, "memfd_create"):
        pytest.skip("this system has no files that lie in memory")
    with Lab("gallery:bloom", seed=0) as lab:
        path = lab.large_file("trace", SIZE)
        path.write_bytes(bytes(SIZE))
        assert path.read_bytes() == bytes(SIZE)
        assert "memfd:trace" in str(path.readlink())
        assert not list(lab.folder.iterdir())
    assert not path.exists()


def test_a_file_for_which_memory_has_no_room_to_spare_lies_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(labs, "memory_left", lambda: 2 * SIZE)
    with Lab("gallery:bloom", seed=0) as lab:
        assert lab.large_file("trace", SIZE) == lab.folder / "trace"
