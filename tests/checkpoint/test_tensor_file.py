"""Files written by hand are what the library writes and reads."""

import hashlib
import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

from hasten.checkpoint.files import CHUNK_BYTES
from hasten.checkpoint.tensor_file import DTYPES, read_tensors, write_tensors
from hasten.errors import HastenError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def bytes_of(tensor: Tensor) -> list[int]:
    return tensor.reshape(-1).view(torch.uint8).tolist()


def specimens(dtype: torch.dtype) -> dict[str, Tensor]:
    values = (torch.arange(48, dtype=torch.uint8) % 2).view(dtype)
    found = {"folded": values.reshape(3, -1), "empty": values[:0].reshape(0, 7)}
    if dtype != torch.float4_e2m1fn_x2:
        found["one"] = values[1].clone()
    return found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_library_reads_every_type(dtype: torch.dtype, path: Path) -> None:
    tensors = specimens(dtype)
    write_tensors(path, tensors)
    for read in (safetensors.torch.load_file(path), read_tensors(path)):
        assert read.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert read[name].dtype == dtype
            assert read[name].shape == tensor.shape
            assert bytes_of(read[name]) == bytes_of(tensor)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_bytes_are_those_of_the_library(dtype: torch.dtype, path: Path) -> None:
    tensors = specimens(dtype)
    write_tensors(path, tensors)
    safetensors.torch.save_file(tensors, path.with_name("theirs"))
    assert path.read_bytes() == path.with_name("theirs").read_bytes()


def test_types_of_all_widths_in_one_file_are_aligned(path: Path) -> None:
    tensors = {
        f"{dtype}": torch.ones(3).to(dtype) for dtype in DTYPES if "float4" not in str(dtype)
    }
    write_tensors(path, tensors)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert length % 8 == 0
    for name, tensor in tensors.items():
        assert header[name]["data_offsets"][0] % tensor.itemsize == 0
    read = safetensors.torch.load_file(path)
    assert all(bytes_of(read[name]) == bytes_of(tensors[name]) for name in tensors)


def test_bytes_and_hash_are_those_of_the_file(path: Path) -> None:
    stored = write_tensors(path, {"a": torch.randn(CHUNK_BYTES // 4 + 3), "b": torch.randn(5)})
    assert stored.name == path.name
    assert stored.bytes == path.stat().st_size > CHUNK_BYTES
    assert stored.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_tied_weights_are_each_written_and_load_strictly(path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    model[1].weight = model[0].weight
    write_tensors(path, model.state_dict())
    fresh = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    fresh.load_state_dict(safetensors.torch.load_file(path), strict=True)
    assert torch.equal(fresh[0].weight, model[0].weight)
    assert torch.equal(fresh[1].weight, model[0].weight)


def test_no_tensors_are_a_file_too(path: Path) -> None:
    write_tensors(path, {})
    assert read_tensors(path) == {}


def test_tensors_that_were_read_do_not_hang_on_the_file(path: Path) -> None:
    write_tensors(path, {"a": torch.ones(100_000)})
    read = read_tensors(path)
    path.write_bytes(b"")
    assert torch.equal(read["a"], torch.ones(100_000))


@pytest.mark.parametrize("name", ["", 'ä\n\x1b[2J"\\', "a b", "\U0001f600"])
def test_odd_names_come_back(name: str, path: Path) -> None:
    write_tensors(path, {name: torch.ones(1)})
    assert list(safetensors.torch.load_file(path)) == [name]


@pytest.mark.parametrize("name", ["__metadata__", "\ud800"])
def test_names_that_the_format_cannot_hold_are_refused(name: str, path: Path) -> None:
    with pytest.raises(HastenError, match="cannot be named"):
        write_tensors(path, {name: torch.ones(1)})
    assert not path.exists()


@pytest.mark.parametrize(
    "tensor", [torch.ones(1, dtype=torch.complex128), torch.eye(2).to_sparse()]
)
def test_tensors_that_the_format_cannot_hold_are_refused(tensor: Tensor, path: Path) -> None:
    with pytest.raises(HastenError, match="cannot hold"):
        write_tensors(path, {"a": tensor})
    assert not path.exists()


def test_a_file_that_is_there_is_not_written_over(path: Path) -> None:
    path.symlink_to(path.with_name("precious"))
    with pytest.raises(FileExistsError):
        write_tensors(path, {})
    assert not path.with_name("precious").exists()


def test_what_is_no_safetensors_file_is_refused(path: Path) -> None:
    torch.save({"a": torch.ones(1)}, path)
    with pytest.raises(HastenError, match="is not a safetensors file"):
        read_tensors(path)


@pytest.mark.parametrize(("goes", "error"), [(True, FileNotFoundError), (False, RuntimeError)])
def test_a_file_that_goes_while_it_is_opened_is_not_there(
    goes: bool, error: type[Exception], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two opens lie in one: another process may rename between them. Other failures are no such."""
    write_tensors(path, {"a": torch.ones(2)})

    def fail(*_: object, **__: object) -> object:
        if goes:
            path.unlink()
        raise RuntimeError("unable to open file")

    monkeypatch.setattr("hasten.checkpoint.tensor_file.safe_open", fail)
    with pytest.raises(error) as raised:
        read_tensors(path)
    assert (getattr(raised.value, "filename", None) == str(path)) == goes
