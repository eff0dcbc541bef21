"""Whether something was drawn from the random generators that all code shares."""

import random
import sys
from typing import Any

import numpy as np


class GlobalGenerators:
    """Their states when it is made. A generator of one's own, seeded by the arguments, is no
    concern of this; one that is seeded by the clock is not seen."""

    def __init__(self) -> None:
        self._before = _states()

    def drawn_from(self) -> list[str]:
        """The names of those that moved since."""
        after = _states()
        before = {**_states_of_new_generators(), **self._before}
        return [name for name, state in after.items() if before.get(name, state) != state]


def _states() -> dict[str, Any]:
    found: dict[str, Any] = {
        "random": random.getstate(),
        "numpy.random": _numpy_state(),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = torch.get_rng_state().numpy().tobytes()
        if torch.cuda.is_initialized():
            states = torch.cuda.get_rng_state_all()
            found["torch.cuda"] = [state.numpy().tobytes() for state in states]
    return found


def _states_of_new_generators() -> dict[str, Any]:
    """Where torch stood when it was imported, perhaps by the builder itself."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    seeded = torch.Generator().manual_seed(torch.initial_seed())
    return {"torch": seeded.get_state().numpy().tobytes()}


def _numpy_state() -> tuple[Any, ...]:
    state = np.random.get_state(legacy=True)
    return tuple(each.tobytes() if isinstance(each, np.ndarray) else each for each in state)
