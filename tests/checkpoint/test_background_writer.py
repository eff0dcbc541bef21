"""Writing beside a training: what was saved is what it was then, and errors are not lost."""

import dataclasses
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from checkpoints import make_content, make_manifest
from hasten.checkpoint.background import BackgroundWriter
from hasten.checkpoint.host_buffers import SLAB_BYTES, HostBuffers
from hasten.checkpoint.store import Content, Store
from hasten.errors import HastenError

TESTS = Path(__file__).parents[1]


class GatedStore(Store):
    """Its writes wait for the gate, and are noted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.gate = threading.Event()
        self.contents: list[Content] = []
        self.pointers: list[list[int]] = []
        self.most_at_once = 0
        self._at_once = 0

    def write(self, content: Content) -> Path:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        self.contents.append(content)
        tensors = [*content.model.values(), *content.tensors.values()]
        self.pointers.append([each.data_ptr() for each in tensors])
        self.gate.wait()
        path = super().write(content)
        self._at_once -= 1
        return path


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with GatedStore(tmp_path) as store:
        yield store
        store.gate.set()


def test_what_was_saved_is_what_it_was_when_save_returned(store: GatedStore) -> None:
    weight = torch.ones(4, requires_grad=True)
    content = Content(make_manifest(1), {"w": weight}, {"$tensor": "t"}, {"t": torch.ones(3)})
    with BackgroundWriter(store) as writer:
        writer.save(content)
        with torch.no_grad():
            weight.fill_(2)
        content.tensors["t"].fill_(2)
        assert writer.is_busy
        store.gate.set()
        writer.wait()
        assert not writer.is_busy
        saved = store.read()
    assert saved.model["w"].tolist() == [1] * 4
    assert saved.tensors["t"].tolist() == [1] * 3
    assert saved.skeleton == {"$tensor": "t"}


def test_a_save_while_busy_waits_for_the_write_before(store: GatedStore) -> None:
    with BackgroundWriter(store) as writer:
        writer.save(make_content(1))
        second = threading.Thread(target=writer.save, args=[make_content(2)])
        second.start()
        store.gate.set()
        second.join()
        writer.wait()
    assert store.most_at_once == 1
    assert store.steps() == [1, 2]
    assert store.read(1).model["weight"].tolist() == [1] * 12
    assert store.read(2).model["weight"].tolist() == [2] * 12


def test_the_buffers_are_kept_while_forms_stay(store: GatedStore) -> None:
    store.gate.set()
    with BackgroundWriter(store) as writer:
        for step in (1, 2):
            writer.save(make_content(step))
        writer.save(make_content(3, numbers=50))
        writer.wait()
    first, second, third = store.pointers
    assert first == second
    assert len(third) == 3
    assert store.read().model["weight"].tolist() == [3] * 50


def test_tensors_of_the_same_memory_are_copied_once(store: GatedStore) -> None:
    store.gate.set()
    weight = torch.randn(6, 4)
    model = {"w": weight, "tied": weight, "view": weight.view(6, 4), "turned": weight.t()}
    with BackgroundWriter(store) as writer:
        writer.save(Content(make_manifest(1), model, None, {"again": weight.detach()}))
        writer.wait()
        assert len(set(store.pointers[0])) == 2
        saved = store.read()
    assert all(torch.equal(saved.model[name], model[name]) for name in model)
    assert torch.equal(saved.tensors["again"], weight)


def test_odd_tensors_are_copied_to_the_bit() -> None:
    tensors = [
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(4, dtype=torch.complex64).conj(),
        torch.randn(4, dtype=torch.complex64).conj().imag,
        torch.randn(3, 1).expand(3, 4),
        torch.tensor(3.5, dtype=torch.bfloat16),
        torch.empty(0, 3),
        torch.empty(0, 5),
        torch.tensor([True, False]),
        torch.randn(5).to(torch.float8_e4m3fn),
        torch.randn(SLAB_BYTES // 4 + 10),
        torch.randn(10),
    ]
    hosts = HostBuffers().copy(tensors)
    for host, tensor in zip(hosts, tensors, strict=True):
        assert host.is_contiguous()
        assert host.dtype == tensor.dtype
        assert torch.equal(
            host.float() if host.dtype.itemsize == 1 else host,
            tensor.float() if host.dtype.itemsize == 1 else tensor,
        )
    pointers = [each.data_ptr() for each in hosts if each.numel()]
    assert len(set(pointers)) == len(pointers)


@pytest.mark.parametrize("where", ["save", "wait", "close"])
def test_an_error_of_the_thread_is_raised_as_it_was_and_once(where: str, tmp_path: Path) -> None:
    error = HastenError("The disk is full.", fix="Make room.")

    class Failing(Store):
        fails = True

        def write(self, content: Content) -> Path:
            if self.fails:
                raise error
            return super().write(content)

    with Failing(tmp_path) as store:
        writer = BackgroundWriter(store)
        writer.save(make_content(1))
        with pytest.raises(HastenError) as caught:
            writer.save(make_content(2)) if where == "save" else getattr(writer, where)()
        assert caught.value is error
        if where != "close":
            store.fails = False
            writer.save(make_content(3))
            writer.close()
            assert store.steps() == [3]


def test_the_callback_is_called_in_the_thread_with_the_path(store: GatedStore) -> None:
    calls = []
    store.gate.set()
    with BackgroundWriter(
        store, lambda path: calls.append((path, threading.get_ident()))
    ) as writer:
        writer.save(make_content(1))
    ((path, thread),) = calls
    assert path == store.folder / "step-00000001"
    assert thread != threading.get_ident()


def test_what_the_callback_raises_is_not_lost(store: GatedStore) -> None:
    def fail(path: Path) -> None:
        raise ZeroDivisionError

    store.gate.set()
    writer = BackgroundWriter(store, fail)
    writer.save(make_content(1))
    with pytest.raises(ZeroDivisionError):
        writer.close()
    assert store.steps() == [1]


def test_a_closed_writer_leaves_no_thread(store: GatedStore) -> None:
    store.gate.set()
    before = threading.active_count()
    with BackgroundWriter(store) as writer:
        writer.save(make_content(1))
    assert threading.active_count() == before


def test_the_manifest_goes_with_its_tensors(store: GatedStore) -> None:
    store.gate.set()
    content = dataclasses.replace(make_content(1), manifest=make_manifest(1, healthy=False))
    with BackgroundWriter(store) as writer:
        writer.save(content)
    assert not store.read(1).manifest.healthy
    with pytest.raises(HastenError, match="not finite"):
        store.read()


ENDING = """
import sys, threading
from pathlib import Path
from checkpoints import make_content
from hasten.checkpoint.background import BackgroundWriter
from hasten.checkpoint.store import Store

ending = threading.Event()
threading._register_atexit(ending.set)

class Late(Store):
    def write(self, content):
        ending.wait()  # the script has come to its end before the write begins
        if sys.argv[2] == "thread":
            raise ValueError
        return super().write(content)

writer = BackgroundWriter(Late(Path(sys.argv[1])).open())
writer.save(make_content(1))
if sys.argv[2] == "script":
    raise ZeroDivisionError
"""


@pytest.mark.parametrize(("fails", "steps"), [("nothing", [1]), ("script", [1]), ("thread", [])])
def test_an_interpreter_that_ends_finishes_the_write_and_does_not_hang(
    fails: str, steps: list[int], tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDING, str(tmp_path), fails],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert ("ZeroDivisionError" in ended.stderr) == (fails == "script")
    assert Store(tmp_path).steps() == steps
