"""A folder of checkpoints: writing, finding, reading, refusing."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
import safetensors.torch

from checkpoints import check_is, make_content, refusal, write
from hasten.checkpoint import folders
from hasten.checkpoint.folders import FILES, MANIFEST, MODEL, STATE, TENSORS
from hasten.checkpoint.store import Store
from hasten.errors import HastenError


def tree_of(folder: Path) -> dict[str, bytes | None]:
    found = folder.rglob("*")
    return {str(each): each.read_bytes() if each.is_file() else None for each in found}


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
    is_there, says_so = os.pipe()
    store = Store(tmp_path).open()
    child = os.fork()
    if child == 0:
        os.write(says_so, b".")
        os.read(reading, 1)
        os._exit(0)
    try:
        os.read(is_there, 1)  # a child that has not run yet has not let go either
        with pytest.raises(HastenError):  # the parent has it still
            Store(tmp_path).open()
        assert store._lock is not None
        store._lock.forget()  # as its death would
        with Store(tmp_path):
            pass
    finally:
        os.write(writing, b".")
        os.waitpid(child, 0)
        for descriptor in (reading, writing, is_there, says_so):
            os.close(descriptor)


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


def test_reading_does_not_mix_a_checkpoint_with_its_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer replaces the newest after the reader has verified it, before it is loaded."""
    real = folders.read_tensors
    store = Store(tmp_path).open()
    store.write(make_content(10, seed=7))
    moves = [True]

    def moving(path: Path) -> Any:
        if moves:
            moves.pop()
            store.write(make_content(10, seed=8))
        return real(path)

    monkeypatch.setattr(folders, "read_tensors", moving)
    saved = Store(tmp_path).read()
    store.close()
    assert (saved.manifest.seed, saved.complaints) == (8, ())
    assert not moves


def test_a_checkpoint_that_was_replaced_while_it_was_verified_is_no_complaint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = folders.find_damage
    store = Store(tmp_path).open()
    store.write(make_content(10, seed=7, numbers=12))
    moves = [True]

    def moving(path: Path, manifest: Any) -> list[str]:
        if moves:
            moves.pop()
            store.write(make_content(10, seed=8, numbers=13))
        return real(path, manifest)

    monkeypatch.setattr(folders, "find_damage", moving)
    saved = Store(tmp_path).read()
    store.close()
    assert (saved.manifest.seed, saved.complaints) == (8, ())
