"""What an expression may be: a tensor, a loader, an optimizer, and where it lies."""

from typing import Literal, NamedTuple

Kind = Literal[
    "tensor",
    "batch",
    "module",
    "loader",
    "dataset",
    "optimizer",
    "scaler",
    "scheduler",
    "frame",
    "array",
    "number",
    "text",
    "list",
    "dict",
    "writer",
    "device",
    "file",
    "none",
    "unknown",
]
Where = Literal["host", "device", "unknown"]


class Value(NamedTuple):
    kind: Kind
    where: Where = "unknown"
    """Of a tensor or a batch of them."""
    items: Kind = "unknown"
    """Of a list or a dict: what it holds."""

    @property
    def is_tensor(self) -> bool:
        return self.kind == "tensor"


UNKNOWN, NONE = Value("unknown"), Value("none")
HOST_TENSOR, DEVICE_TENSOR = Value("tensor", "host"), Value("tensor", "device")
LOADER = Value("loader", "host")
TENSOR, NUMBER, ARRAY = Value("tensor"), Value("number"), Value("array", "host")
