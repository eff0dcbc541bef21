"""A writer that is killed at any point leaves the checkpoints before it, or the new one, whole.

A forked child stops before one of its steps: a call that changes a name, a flush to disk, a chunk
of data. There it is killed with SIGKILL, in turn at each of them.
"""

import hashlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpoints import make_content
from hasten.checkpoint import files, tensor_file
from hasten.checkpoint.codec import decode
from hasten.checkpoint.folders import FILES, MANIFEST, find_folders
from hasten.checkpoint.store import Content, Store

NUMBERS = 150_000
"""Several chunks of data, and more than the buffer of a file."""
CALLS = ("mkdir", "fsync", "replace", "rename", "unlink", "rmdir")


class Stops:
    """Notes each step of the process it is in, and stops for ever before one of them."""

    def __init__(self, stop_at: int | None, report: int) -> None:
        self.names: list[str] = []
        self._stop_at = stop_at
        self._report = report
        for name in CALLS:
            setattr(os, name, self._gated(name, getattr(os, name)))
        self._sha256 = hashlib.sha256
        files.hashlib = self  # type: ignore[attr-defined]
        tensor_file.CHUNK_BYTES = 1 << 18  # type: ignore[misc]

    def sha256(self) -> Any:
        stops, digest = self, self._sha256()

        class Gated:
            update = staticmethod(stops._gated("data", digest.update))
            hexdigest = staticmethod(digest.hexdigest)

        return Gated

    def _gated(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def gated(*arguments: Any, **options: Any) -> Any:
            if len(self.names) == self._stop_at:
                os.write(self._report, b"stopped")
                signal.pause()
            target = arguments[-1] if name == "replace" else arguments[0]
            shown = f"{name} {Path(target).name}" if isinstance(target, Path | str) else name
            self.names.append(shown)
            return call(*arguments, **options)

        return gated


def run_child(folder: Path, content: Content, stop_at: int | None = None) -> str:
    """What the child reported: that it stopped, and was killed there, or its steps."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with Store(folder) as store:
                stops = Stops(stop_at, writing)
                store.write(content)
            os.write(writing, "\n".join(stops.names).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as report:
        text = report.read(7)
        if text == "stopped":
            os.kill(child, signal.SIGKILL)
        text += report.read()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) == (text == "stopped")
    assert text, "the child failed"
    return text


def check_whole(folder: Path, wanted: set[tuple[int, int]]) -> tuple[int, int]:
    saved = Store(folder).read()
    assert saved.complaints == ()
    step = saved.manifest.position.step
    assert saved.model["weight"].unique().tolist() == [step]
    assert decode(saved.skeleton, saved.tensors)["state"][0].unique().tolist() == [-step]
    found = step, saved.manifest.seed
    assert found in wanted
    return found


def check_tidy(folder: Path, newest: int) -> None:
    assert (folder / "latest").read_text() == f"step-{newest:08d}\n"
    for each in find_folders(folder):
        assert not each.is_new
        assert {file.name for file in each.path.iterdir()} == {*FILES, MANIFEST}
    others = {each.name for each in folder.iterdir()} - {
        each.path.name for each in find_folders(folder)
    }
    assert others == {".lock", "latest"}


@pytest.mark.parametrize(
    ("before", "step"),
    [((1,), 2), ((1, 2), 3), ((1, 2), 2)],
    ids=["the second", "one that pushes another out", "one that replaces another"],
)
def test_a_writer_killed_at_any_point_leaves_a_whole_checkpoint(
    before: tuple[int, ...], step: int, tmp_path: Path
) -> None:
    new = make_content(step, numbers=NUMBERS, seed=8)
    old = [make_content(each, numbers=NUMBERS) for each in before]
    was, will_be = (before[-1], 7), (step, 8)

    def prepare(name: str) -> Path:
        folder = tmp_path / name
        with Store(folder) as store:
            for each in old:
                store.write(each)
        return folder

    steps = run_child(prepare("plain"), new).splitlines()
    assert steps.count("data") >= 8
    done = steps.index(f"replace {MANIFEST}")
    pointed = steps.index("replace latest") if "replace latest" in steps else done
    for stop_at in range(len(steps)):
        folder = prepare(str(stop_at))
        assert run_child(folder, new, stop_at) == "stopped"
        is_new = stop_at > done
        assert check_whole(folder, {was, will_be}) == (will_be if is_new else was)
        if is_new and stop_at <= pointed and step not in before:
            assert (folder / "latest").read_text() == f"step-{was[0]:08d}\n"
        with Store(folder) as store:
            check_tidy(folder, newest=will_be[0] if is_new else was[0])
            check_whole(folder, {will_be if is_new else was})
            store.write(make_content(step + 1, numbers=12))
        assert Store(folder).read().manifest.position.step == step + 1
