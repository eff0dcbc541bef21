"""Which checkpoints stay: the newest that are healthy and verified, and one sick one at most."""

import os
from pathlib import Path

import pytest

from checkpoints import make_content
from hasten.checkpoint.folders import FILES, MANIFEST
from hasten.checkpoint.store import Store


def test_the_newest_stay(tmp_path: Path) -> None:
    with Store(tmp_path, keep=3) as store:
        for step in range(1, 8):
            store.write(make_content(step))
            assert store.steps() == list(range(max(1, step - 2), step + 1))
    assert not list(tmp_path.glob("step-0000000[1-4]"))


def test_a_sick_one_pushes_no_healthy_one_out(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.write(make_content(1))
        store.write(make_content(2))
        for step in (3, 4, 5):
            store.write(make_content(step, healthy=False))
            assert store.steps() == [1, 2, step]


def test_a_healthy_one_after_sick_ones_takes_its_turn(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for step, healthy in [(1, True), (2, True), (3, False), (4, True), (5, True)]:
            store.write(make_content(step, healthy=healthy))
    assert Store(tmp_path).steps() == [3, 4, 5]


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_one_that_broke_on_disk_does_not_count(name: str, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.write(make_content(1))
        store.write(make_content(2))
        path = tmp_path / "step-00000002" / name
        os.truncate(path, path.stat().st_size - 1)
        store.write(make_content(3))
        whole = [1, 3] if name == MANIFEST else [1, 2, 3]
        assert store.steps() == whole
        assert path.exists()
        store.write(make_content(4))
        assert store.steps() == [3, 4] if name == MANIFEST else [2, 3, 4]
        store.write(make_content(5, healthy=False))
        assert store.steps() == [3, 4, 5]
        assert not path.exists()


def test_the_one_just_written_stays_even_if_others_are_of_later_steps(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for step in (10, 20, 5):
            store.write(make_content(step))
        assert store.steps() == [5, 10, 20]
        store.write(make_content(6))
        assert store.steps() == [6, 10, 20]


def test_a_removal_begins_with_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = []
    real = os.unlink

    def note(path: Path, *arguments: object, **options: object) -> None:
        removed.append(Path(path).name)
        real(path)

    with Store(tmp_path) as store:
        store.write(make_content(1))
        store.write(make_content(2))
        monkeypatch.setattr(os, "unlink", note)
        store.write(make_content(3))
        monkeypatch.undo()
    names = [name for name in removed if not name.endswith(".partial")]
    assert names == [MANIFEST, *FILES]
