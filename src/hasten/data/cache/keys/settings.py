"""Settings of torch that decide what any code of it gives: in a key where they are not as torch
starts, so that a key is the same before and after torch is loaded."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hasten.data.cache.keys.digester import Digester

DEVICES = ("cpu", "cuda")


def feed_settings(digester: "Digester") -> None:
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for name, value, usual in (
        ("default dtype", torch.get_default_dtype(), torch.float32),
        ("default device", torch.get_default_device().type, "cpu"),
        ("matmul precision", torch.get_float32_matmul_precision(), "highest"),
    ):
        if value != usual:
            digester.write("setting", name, str(value))
    for each in DEVICES:
        if torch.is_autocast_enabled(each):
            digester.write("setting", f"autocast on {each}", str(torch.get_autocast_dtype(each)))
