"""All the random generators that a training may draw from, together."""

import random
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def host_random_state() -> dict[str, Any]:
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),
        "torch": torch.get_rng_state(),
    }


def random_state() -> dict[str, Any]:
    state = host_random_state()
    if _cuda_usable():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def restore_host_random_state(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])


def restore_random_state(state: dict[str, Any]) -> None:
    restore_host_random_state(state)
    if "cuda" in state:
        torch.cuda.set_rng_state_all(state["cuda"])


def same_host_random_state(state: dict[str, Any]) -> bool:
    numpy_now = np.random.get_state(legacy=False)["state"]
    numpy_then = state["numpy"]["state"]
    return (
        random.getstate() == state["python"]
        and torch.equal(torch.get_rng_state(), state["torch"])
        and numpy_now["pos"] == numpy_then["pos"]
        and bool(np.array_equal(numpy_now["key"], numpy_then["key"]))
    )


def same_random_state(state: dict[str, Any]) -> bool:
    if not same_host_random_state(state):
        return False
    if "cuda" not in state:
        return True
    now = torch.cuda.get_rng_state_all()
    return all(map(torch.equal, now, state["cuda"]))


def _cuda_usable() -> bool:
    """Not in a process forked from one that uses CUDA, such as a loader worker."""
    return torch.cuda.is_available() and not torch.cuda._is_in_bad_fork()
