"""What a call gives, as far as the name of what is called tells.

Files call the same few hundred functions again and again, so each name is judged once.
"""

from functools import lru_cache
from typing import Literal

from hasten.scan import vocabulary
from hasten.scan.value import (
    DEVICE_TENSOR,
    LOADER,
    NUMBER,
    TENSOR,
    UNKNOWN,
    Value,
)

NUMBERS = ("len", "int", "float", "bool", "abs", "round")
"""Functions of Python that give a number."""
HANDS_ON = ("enumerate", "tqdm", "iter", "zip", "map", "deepcopy", "copy.deepcopy")
"""Functions that give what they are given, one by one or as a whole."""

ByArguments = Literal[
    "torch", "parts", "loader", "dataset", "numpy", "list", "one of", "next", "same"
]
"""What is called, where it also takes the arguments to say what it gives."""


@lru_cache(maxsize=10_000)
def told_by_name(dotted: str) -> Value | ByArguments | None:
    """Of a dotted name, with imports followed; None where it tells nothing."""
    module, _, last = dotted.rpartition(".")
    if dotted in NUMBERS:
        return NUMBER
    if (
        module in vocabulary.TORCH
        and last not in vocabulary.TORCH_GIVES_NO_TENSOR
        and not last.startswith(("is_", "get_", "set_"))
    ):
        if last == "Parameter":
            return TENSOR
        if last[:1].isupper() and last not in vocabulary.MADE_ON_HOST:
            return Value("module") if module == "torch.nn" else UNKNOWN
        return "torch"
    if dotted in ("torch.split", "torch.chunk", "torch.unbind"):
        return "parts"
    if last in ("clip_grad_norm_", "clip_grad_norm"):
        return DEVICE_TENSOR
    if last == "register_buffer":
        return TENSOR
    if last in vocabulary.OPTIMIZERS and ("optim" in dotted or dotted == last):
        return Value("optimizer")
    if last in vocabulary.LOADERS or last.endswith("DataLoader"):
        return "loader"
    if last in vocabulary.DATASETS:
        return "dataset"
    if dotted.startswith(vocabulary.LR_SCHEDULERS):
        return Value("scheduler")
    if last == "GradScaler":
        return Value("scaler")
    if last == "SummaryWriter":
        return Value("writer")
    if dotted.startswith(("numpy.", "np.", "scipy.sparse.")):
        return "numpy"
    if dotted.startswith(("pandas.", "pd.")) or (last in vocabulary.FRAMES and "." not in dotted):
        return Value("frame")
    if dotted == "torch.device":
        return Value("device")
    if dotted in vocabulary.STORES:
        return Value("file")
    if dotted.startswith(("torch.nn.", "torchaudio.transforms.")):
        return Value("module")
    if dotted in ("str", "repr"):
        return Value("text")
    if dotted in ("list", "tuple", "sorted", "reversed", "set"):
        return "list"
    if dotted in ("sum", "max", "min"):
        return "one of"
    if dotted == "next":
        return "next"
    is_wrapper = dotted in HANDS_ON or last in ("tqdm", "trange", "track", "prepare")
    return "same" if is_wrapper else None


@lru_cache(maxsize=10_000)
def told_by_last_name(name: str) -> Value:
    """Of a function of which nothing else is known."""
    if vocabulary.MAKES_LOADER.search(name):
        return LOADER
    return TENSOR if vocabulary.GIVES_SCORES.search(name) else UNKNOWN


@lru_cache(maxsize=10_000)
def makes_tensor(name: str) -> bool:
    """Whether a function is called as those are that make a tensor of an array."""
    return vocabulary.MAKES_TENSOR.search(name) is not None
