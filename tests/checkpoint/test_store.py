"""A folder of checkpoints: writing, finding, reading, refusing."""

import contextlib
import errno
import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
import safetensors.torch
import torch

from checkpoints import make_content
from hasten.checkpoint import folders
from hasten.checkpoint.codec import decode
from hasten.checkpoint.folders import FILES, MANIFEST, MODEL, STATE, TENSORS, Saved
from hasten.checkpoint.store import Store
from hasten.errors import HastenError


def write(folder: Path, *steps: int) -> None:
    with Store(folder, keep=max(2, len(steps))) as store:
        for step in steps:
            store.write(make_content(step))


def refusal(folder: Path, step: int | None = None) -> HastenError:
    with pytest.raises(HastenError) as caught:
        Store(folder).read(step)
    return caught.value


def check_is(saved: Saved, step: int) -> None:
    assert saved.manifest.position.step == step
    assert saved.model["weight"].tolist() == [float(step)] * 12
    assert saved.model["tied"].tolist() == [float(step)] * 12
    state = decode(saved.skeleton, saved.tensors)
    assert state["state"][0].tolist() == [-float(step)] * 12


def tree_of(folder: Path) -> dict[str, bytes | None]:
    found = folder.rglob("*")
    return {str(each): each.read_bytes() if each.is_file() else None for each in found}


def flip(path: Path, at: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "checkpoints"
    content = make_content(50)
    with Store(folder) as store:
        path = store.write(content)
    assert path == folder / "step-00000050"
    assert (folder / "latest").read_text() == "step-00000050\n"
    assert {each.name for each in path.iterdir()} == {*FILES, MANIFEST}
    saved = Store(folder).read()
    check_is(saved, 50)
    assert saved.path == path
    assert saved.complaints == ()
    assert saved.manifest == msgspec.structs.replace(content.manifest, files=saved.manifest.files)
    assert [each.name for each in saved.manifest.files] == [MODEL, TENSORS, STATE]


def test_the_weights_load_without_hasten(tmp_path: Path) -> None:
    write(tmp_path, 5)
    loaded = safetensors.torch.load_file(tmp_path / "step-00000005" / MODEL)
    assert set(loaded) == {"weight", "tied"}


def test_the_newest_is_read_and_any_other_on_demand(tmp_path: Path) -> None:
    write(tmp_path, 5, 100_000_000, 20)
    store = Store(tmp_path)
    assert store.steps() == [5, 20, 100_000_000]
    check_is(store.read(), 100_000_000)
    check_is(store.read(5), 5)
    error = refusal(tmp_path, 7)
    assert error.what.endswith("has no checkpoint of step 7.")
    assert error.fix == "It has 5, 20, 100000000."


def test_a_folder_that_is_not_there_has_no_steps_and_is_named(tmp_path: Path) -> None:
    assert Store(tmp_path / "no").steps() == []
    assert refusal(tmp_path / "no").what == f"There is no folder {tmp_path / 'no'}."
    assert not (tmp_path / "no").exists()


def test_an_empty_folder_holds_nothing(tmp_path: Path) -> None:
    assert "holds no complete checkpoint" in refusal(tmp_path).what
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert "Not a directory" in refusal(file).what
    with pytest.raises(HastenError, match="not a place to write checkpoints to: File exists"):
        Store(file).open()


def test_one_checkpoint_alone_is_too_few(tmp_path: Path) -> None:
    with pytest.raises(HastenError, match="keep=1 is less than 2"):
        Store(tmp_path, keep=1)


def test_a_store_that_is_not_open_does_not_write(tmp_path: Path) -> None:
    with pytest.raises(HastenError, match="is not open"):
        Store(tmp_path).write(make_content(1))


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


def test_hostile_names_beside_the_checkpoints_do_not_matter(tmp_path: Path) -> None:
    write(tmp_path, 5)
    odd = [
        "step-00000007\n",
        "step-7",
        "step-000000007",
        "\x1b[2J",
        "step-0000000\N{ARABIC-INDIC DIGIT SEVEN}",
        "step-00000008.old",
    ]
    for name in odd:
        (tmp_path / name).mkdir()
    (tmp_path / "step-\udcff").mkdir()  # a byte that is no text
    (tmp_path / "step-00000009").write_text("a file")
    (tmp_path / "step-00000011").symlink_to(tmp_path / "step-00000005")
    write(tmp_path, 20)
    assert Store(tmp_path).steps() == [5, 20]
    check_is(Store(tmp_path).read(), 20)
    assert all((tmp_path / name).is_dir() for name in odd)
    assert (tmp_path / "step-00000009").read_text() == "a file"
    assert (tmp_path / "step-00000011").is_symlink()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_name_that_is_taken_by_something_else_is_not_written_over(
    kind: str, tmp_path: Path
) -> None:
    taken = tmp_path / "store" / "step-00000005"
    taken.parent.mkdir()
    (tmp_path / "mine").mkdir()
    if kind == "file":
        taken.write_text("mine")
    else:
        taken.symlink_to(tmp_path / "mine")
    with Store(tmp_path / "store") as store, pytest.raises(HastenError, match="was not written"):
        store.write(make_content(5))
    assert taken.is_symlink() == (kind == "link")
    assert list((tmp_path / "mine").iterdir()) == []


def test_partial_folders_are_removed_but_nothing_of_the_users(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis").write_text("text")
    store = tmp_path / "store"
    partial = store / "step-00000005"
    partial.mkdir(parents=True)
    (partial / MODEL).write_bytes(b"half")
    (partial / STATE).symlink_to(precious / "thesis")
    noted = store / "step-00000006"
    noted.mkdir()
    (noted / MODEL).write_bytes(b"half")
    (noted / "notes.txt").write_text("text")
    (store / "step-00000007").symlink_to(precious)
    (store / "latest.partial").write_text("step")
    assert Store(store).steps() == []
    with Store(store):
        pass
    assert not partial.exists()
    assert [each.name for each in noted.iterdir()] == ["notes.txt"]
    assert (precious / "thesis").read_text() == "text"
    assert not (store / "latest.partial").exists()


@pytest.mark.parametrize("content", [None, "", "step-99999999\n", "../../etc\n", "\x1b" * 9999])
def test_a_wrong_pointer_misleads_nobody_and_is_mended(content: str | None, tmp_path: Path) -> None:
    write(tmp_path, 5, 10)
    latest = tmp_path / "latest"
    latest.unlink()
    if content is not None:
        latest.write_text(content)
    check_is(Store(tmp_path).read(), 10)
    assert not latest.exists() if content is None else latest.read_text() == content
    with Store(tmp_path):
        assert latest.read_text() == "step-00000010\n"


def test_a_pointer_to_nothing_goes(tmp_path: Path) -> None:
    (tmp_path / "latest").write_text("step-00000010\n")
    with Store(tmp_path):
        assert not (tmp_path / "latest").exists()


def test_writing_a_step_again_replaces_it(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.write(make_content(5))
        assert store.write(make_content(5, seed=8)) == tmp_path / "step-00000005"
    assert Store(tmp_path).read().manifest.seed == 8
    assert sorted(each.name for each in tmp_path.iterdir()) == [".lock", "latest", "step-00000005"]


def test_at_every_moment_of_a_replacement_one_of_the_two_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked before and after each call that changes a name."""
    seen = []

    def look(function: Any) -> Any:
        def looking(*arguments: Any, **options: Any) -> Any:
            seen.append(Store(tmp_path).read().manifest.seed)
            result = function(*arguments, **options)
            seen.append(Store(tmp_path).read().manifest.seed)
            return result

        return looking

    with Store(tmp_path) as store:
        store.write(make_content(5, seed=7))
        for name in ("replace", "rename", "unlink", "rmdir"):
            monkeypatch.setattr(os, name, look(getattr(os, name)))
        store.write(make_content(5, seed=8))
    monkeypatch.undo()
    assert len(seen) >= 10
    assert seen == sorted(seen)
    assert set(seen) == {7, 8}


def test_a_replacement_is_not_begun_where_files_of_the_user_lie(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        path = store.write(make_content(5))
        (path / "notes.txt").write_text("text")
        with pytest.raises(HastenError, match=r"holds 'notes.txt'"):
            store.write(make_content(5, seed=8))
    assert Store(tmp_path).read().manifest.seed == 7


def test_a_failed_replacement_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path) as store:
        store.write(make_content(5))
        before = tree_of(tmp_path)
        monkeypatch.setattr(os, "replace", failing(errno.EIO))
        with pytest.raises(HastenError, match="was not written"):
            store.write(make_content(5, seed=8))
    assert tree_of(tmp_path) == before


def failing(code: int) -> Any:
    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_a_rename_across_devices_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path) as store:
        store.write(make_content(5))
        before = tree_of(tmp_path)
        monkeypatch.setattr(os, "replace", failing(errno.EXDEV))
        with pytest.raises(HastenError) as caught:
            store.write(make_content(10))
    assert f"The checkpoint {tmp_path / 'step-00000010'} of " in caught.value.what
    assert "across devices" in caught.value.what
    assert tree_of(tmp_path) == before


@pytest.mark.parametrize("name", ["fsync", "replace", "mkdir"])
@pytest.mark.parametrize("code", [errno.EIO, errno.EDQUOT, errno.EROFS])
def test_what_the_disk_refuses_is_told_and_leaves_nothing(
    name: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path) as store:
        store.write(make_content(5))
        before = tree_of(tmp_path)
        monkeypatch.setattr(os, name, failing(code))
        with pytest.raises(HastenError) as caught:
            store.write(make_content(10))
        monkeypatch.undo()
    assert os.strerror(code) in caught.value.what
    assert ("bytes are free there" in caught.value.what) == (code == errno.EDQUOT)
    assert "older checkpoints are as they were" in caught.value.fix
    with Store(tmp_path):  # where even the removal was refused, it is done now
        assert tree_of(tmp_path) == before


def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with Store(tmp_path) as store:
        store.write(make_content(5))
        before = tree_of(tmp_path)
        monkeypatch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.write(make_content(10))
        assert tree_of(tmp_path) == before


HOLD = """
import sys
from pathlib import Path
from hasten.checkpoint.store import Store
with Store(Path(sys.argv[1])):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_two_runs_do_not_write_into_one_folder(tmp_path: Path) -> None:
    write(tmp_path, 5)
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        with pytest.raises(HastenError) as caught:
            Store(tmp_path).open()
        assert "Another run writes its checkpoints to" in caught.value.what
        assert str(child.pid) in caught.value.what
        check_is(Store(tmp_path).read(), 5)
        child.kill()
        child.wait()
        with Store(tmp_path):  # the kernel took the lock back
            pass


def test_two_stores_of_one_process_do_not_write_into_one_folder(tmp_path: Path) -> None:
    with Store(tmp_path), pytest.raises(HastenError, match="Another run"):
        Store(tmp_path).open()
    with Store(tmp_path):
        pass


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    store = Store(tmp_path).open()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(0)
    try:
        with pytest.raises(HastenError):  # the parent has it still
            Store(tmp_path).open()
        assert store._lock is not None
        store._lock.forget()  # as its death would
        with Store(tmp_path):
            pass
    finally:
        os.write(writing, b".")
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_reading_while_writing_finds_a_whole_one_always(tmp_path: Path) -> None:
    done = threading.Event()
    errors: list[BaseException] = []
    seen: list[int] = []

    def read() -> None:
        try:
            while not (seen and done.is_set()):
                saved = Store(tmp_path).read()
                assert saved.complaints == ()
                check_is(saved, saved.manifest.position.step)
                seen.append(saved.manifest.position.step)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    with Store(tmp_path) as store:
        store.write(make_content(1))
        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for step in range(2, 30):
            store.write(make_content(step))
            store.write(make_content(step))
        done.set()
        for reader in readers:
            reader.join()
    assert errors == []
    assert seen


def test_reading_follows_a_checkpoint_that_moves_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer replaces the newest after the reader has listed the folder."""
    write(tmp_path, 5, 10)
    real = folders.read_manifest
    moves = [True]

    def moving(folder: folders.Folder) -> Any:
        if folder.step == 10 and moves:
            moves.pop()
            (tmp_path / "step-00000010").rename(tmp_path / "step-00000010.new")
        return real(folder)

    monkeypatch.setattr(folders, "read_manifest", moving)
    check_is(Store(tmp_path).read(), 10)
    assert not moves
