"""Reads the environment. Imports torch, but only when asked."""

import importlib.metadata
import os
import platform
import shutil
from pathlib import Path

import psutil

from hasten import __version__
from hasten.host.cores import cores_allowed, memory_allowed
from hasten.records.environment import Device, Environment

PACKAGES = ("torch", "triton", "numpy")


def read_environment() -> Environment:
    memory = memory_allowed(psutil.virtual_memory().total)
    return Environment(
        device=_device(memory),
        cpu=_cpu_name(),
        cores_allowed=cores_allowed(),
        cores_present=os.cpu_count() or 1,
        threads=_threads(),
        memory_bytes=memory,
        shared_memory_bytes=_shared_memory(),
        system=f"{platform.system()} {platform.machine()}",
        compiler=find_compiler(),
        versions=_versions(),
    )


def find_compiler() -> str | None:
    """What torch.compile would call on the CPU: $CXX, else the usual names on the path."""
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


def _device(host_memory: int) -> Device:
    import torch

    if torch.cuda.is_available():
        first = torch.cuda.get_device_properties(0)
        return Device(
            kind="cuda",
            name=first.name,
            count=torch.cuda.device_count(),
            memory_bytes=first.total_memory,
            bf16=torch.cuda.is_bf16_supported(including_emulation=False),
            capability=(first.major, first.minor),
        )
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None:
        count = torch.accelerator.device_count()
        return Device(kind=accelerator.type, name=accelerator.type, count=count, memory_bytes=0)
    return Device(
        kind="cpu",
        name=_cpu_name(),
        count=1,
        memory_bytes=host_memory,
        bf16=_computes_bf16(),
    )


def _computes_bf16() -> bool:
    """Whether this CPU has the instructions, and oneDNN uses them: it computes bf16 without them
    too, and slowly, and may be told to leave them alone (ONEDNN_MAX_CPU_ISA)."""
    import torch

    has = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return has and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _cpu_name() -> str:
    import torch

    name = ""
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), "")
    name = name or platform.processor() or platform.machine()
    return f"{name} ({torch.backends.cpu.get_cpu_capability()})"


def _shared_memory() -> int:
    folder = Path("/dev/shm")
    return shutil.disk_usage(folder).total if folder.is_dir() else 0


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "hasten": __version__}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
