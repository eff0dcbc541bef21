"""Checkpoints that are broken or hostile: told and passed over, never run, never changed."""

import contextlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from checkpoints import check_is, flip, make_content, refusal, write
from hasten.checkpoint import folders
from hasten.checkpoint.folders import FILES, MANIFEST, MODEL, STATE, TENSORS
from hasten.checkpoint.store import Store
from hasten.errors import HastenError


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
@pytest.mark.parametrize("harm", ["truncated", "emptied", "flipped", "gone", "folder", "pipe"])
def test_what_is_broken_is_told_and_the_one_before_is_taken(
    name: str, harm: str, tmp_path: Path
) -> None:
    write(tmp_path, 5, 10)
    broken = tmp_path / "step-00000010" / name
    if harm == "truncated":
        os.truncate(broken, broken.stat().st_size - 7)
    elif harm == "emptied":
        broken.write_bytes(b"")
    elif harm == "flipped":
        flip(broken, at=broken.stat().st_size // 2)
    else:
        broken.unlink()
        if harm == "folder":
            broken.mkdir()
        elif harm == "pipe":
            os.mkfifo(broken)
    before = list(tmp_path.rglob("*"))
    saved = Store(tmp_path).read()
    check_is(saved, 5)
    if (name, harm) == (MANIFEST, "gone"):
        assert saved.complaints == ()  # that is a partial one
    else:
        (complaint,) = saved.complaints
        assert str(broken.parent) in complaint
    assert list(tmp_path.rglob("*")) == before


def test_a_complaint_says_how_many_bytes_and_which_hash(tmp_path: Path) -> None:
    write(tmp_path, 5, 10)
    folder = tmp_path / "step-00000010"
    size = (folder / MODEL).stat().st_size
    os.truncate(folder / MODEL, size - 7)
    flip(folder / TENSORS)
    (complaint,) = Store(tmp_path).read().complaints
    assert f"{MODEL} is truncated: {size - 7} of {size} bytes" in complaint
    assert f"{TENSORS} has changed: its sha256 is " in complaint


def test_every_flipped_bit_of_a_manifest_is_seen_or_means_nothing(tmp_path: Path) -> None:
    write(tmp_path, 5)
    path = tmp_path / "step-00000005" / MANIFEST
    whole = path.read_bytes()
    wanted = Store(tmp_path).read().manifest
    for at in range(len(whole)):
        path.write_bytes(whole)
        flip(path, at)
        with contextlib.suppress(HastenError):
            assert Store(tmp_path).read().manifest == wanted


def test_where_none_is_left_all_of_it_is_told(tmp_path: Path) -> None:
    write(tmp_path, 5, 10)
    flip(tmp_path / "step-00000010" / MODEL)
    (tmp_path / "step-00000005" / STATE).unlink()
    error = refusal(tmp_path)
    assert f"{tmp_path}/step-00000010/{MODEL} has changed" in error.what
    assert f"{tmp_path}/step-00000005/{STATE} is missing" in error.what
    assert error.fix


def rewrite_manifest(folder: Path, **changes: Any) -> None:
    path = folder / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_manifest_of_another_format_is_told_before_its_keys_are_asked(tmp_path: Path) -> None:
    write(tmp_path, 5)
    rewrite_manifest(tmp_path / "step-00000005", format=0, what_is_this=1)
    error = refusal(tmp_path)
    assert "format 0 is not known; this Hasten reads 1." in error.what


def test_a_checkpoint_of_another_format_is_never_removed(tmp_path: Path) -> None:
    write(tmp_path, 5)
    rewrite_manifest(tmp_path / "step-00000005", format=2)
    write(tmp_path, 10, 20, 30)
    assert (tmp_path / "step-00000005" / MODEL).exists()


def test_a_manifest_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 5)
    monkeypatch.setattr(folders, "LARGEST_MANIFEST_BYTES", 100)
    assert "has more than 100 bytes" in refusal(tmp_path).what


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "other", MODEL])
def test_names_in_a_manifest_are_not_paths(name: str, tmp_path: Path) -> None:
    write(tmp_path, 5)
    (tmp_path / "secret").write_bytes(b"secret")
    folder = tmp_path / "step-00000005"
    files = json.loads((folder / MANIFEST).read_text())["files"]
    rewrite_manifest(folder, files=[*files, {"name": name, "bytes": 6, "sha256": ""}])
    assert "does not list" in refusal(tmp_path).what


def test_a_manifest_of_another_step_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 5)
    (tmp_path / "step-00000005").rename(tmp_path / "step-00000006")
    assert "is of step 5, not 6" in refusal(tmp_path).what


class Malice:
    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.canary),)


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
@pytest.mark.parametrize("with_hash", [False, True])
@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_a_pickle_is_never_loaded(name: str, with_hash: bool, kind: str, tmp_path: Path) -> None:
    write(tmp_path / "store", 5)
    canary = tmp_path / "canary"
    folder = tmp_path / "store" / "step-00000005"
    if kind == "pickle":
        (folder / name).write_bytes(pickle.dumps(Malice(canary)))
    else:
        torch.save(Malice(canary), folder / name)
    if with_hash and name != MANIFEST:
        stored = json.loads((folder / MANIFEST).read_text())["files"]
        for each in stored:
            if each["name"] == name:
                each["bytes"] = (folder / name).stat().st_size
                with (folder / name).open("rb") as file:
                    each["sha256"] = folders.hash_file(file)
        rewrite_manifest(folder, files=stored)
    assert str(folder / name) in refusal(tmp_path / "store").what
    with Store(tmp_path / "store") as store:
        store.write(make_content(10))
    assert not canary.exists()
