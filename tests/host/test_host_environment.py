"""What is read of this machine."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hasten import __version__
from hasten.host.environment import find_compiler, read_environment
from hasten.records.environment import Environment
from hasten.records.record import from_builtins, parse_toml, to_toml


@pytest.fixture
def here() -> Environment:
    return read_environment()


def make_program(folder: Path, name: str) -> Path:
    program = folder / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_the_machine_has_cores_and_memory(here: Environment) -> None:
    assert 0 < here.cores_allowed <= here.cores_present == os.cpu_count()
    assert here.memory_bytes > 100 << 20
    assert here.shared_memory_bytes >= 0


def test_the_device_is_the_one_that_torch_uses(here: Environment) -> None:
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    assert here.device.kind == ("cpu" if accelerator is None else accelerator.type)
    assert here.device.count >= 1
    assert here.device.name


@pytest.mark.skipif(torch.accelerator.is_available(), reason="needs a machine without a GPU")
def test_without_a_gpu_the_device_is_the_processor(here: Environment) -> None:
    assert here.device.name == here.cpu
    assert here.device.count == 1
    assert here.device.memory_bytes == here.memory_bytes


def test_the_processor_is_named_with_what_torch_uses_of_it(here: Environment) -> None:
    assert here.cpu.endswith(f" ({torch.backends.cpu.get_cpu_capability()})")


def test_the_versions_are_those_that_run(here: Environment) -> None:
    assert here.versions["python"] == platform.python_version()
    assert here.versions["torch"] == str(torch.__version__)
    assert here.versions["hasten"] == __version__


def test_a_package_that_is_not_there_has_no_version(
    here: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hasten.host.environment.PACKAGES", ("torch", "no-such-package"))
    assert set(read_environment().versions) == {"python", "hasten", "torch"}


def test_reading_twice_gives_the_same_machine(here: Environment) -> None:
    again = read_environment()
    assert again.fingerprint() == here.fingerprint()
    assert here.differences(again) == []


def test_this_machine_comes_back_from_toml(here: Environment) -> None:
    raw = parse_toml(to_toml(here), where="recipe.toml")
    assert from_builtins(raw, Environment, where="recipe.toml") == here


def test_without_a_compiler_on_the_path_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert find_compiler() is None
    assert read_environment().compiler is None


def test_a_compiler_on_the_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    clang = make_program(tmp_path, "clang++")
    assert find_compiler() == str(clang)
    gcc = make_program(tmp_path, "g++")
    assert find_compiler() == str(gcc)


def test_the_compiler_that_the_user_chose_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(tmp_path, "g++")
    chosen = make_program(tmp_path, "icpx")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "icpx")
    assert find_compiler() == str(chosen)


def test_a_chosen_compiler_that_is_not_there_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcc = make_program(tmp_path, "g++")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert find_compiler() == str(gcc)


def test_importing_the_room_imports_no_torch() -> None:
    code = "import sys, hasten.host.environment; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("has", "uses", "expected"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_cpu_computes_bf16_where_it_has_it_and_is_let(
    has: bool, uses: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: uses, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert read_environment().device.bf16 is expected
