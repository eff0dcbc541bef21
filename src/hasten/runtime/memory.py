"""Peak memory of this process, host and device apart; what is free; and whether it was too
much."""

import gc
import resource
import sys

import psutil
import torch

from hasten.host.cores import memory_allowed
from hasten.records.measurement import Memory


def read_memory() -> Memory:
    """Peaks since the process began. Host memory is resident size, so it includes the libraries."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    host = peak if sys.platform == "darwin" else peak * 1024
    if not torch.cuda.is_available():
        return Memory(host_bytes=host)
    return Memory(
        host_bytes=host,
        device_allocated_bytes=torch.cuda.max_memory_allocated(),
        device_reserved_bytes=torch.cuda.max_memory_reserved(),
    )


def free_bytes(device: torch.device) -> int:
    """That a device, or the host within what this process may take, has left."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    memory = psutil.virtual_memory()
    return min(memory.available, memory_allowed(memory.total))


def give_back_memory() -> None:
    """What nobody refers to any more: other processes may wait for room on the device."""
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def ran_out_of_memory(error: BaseException) -> bool:
    """For the host's memory torch has no error of its own, only words."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
