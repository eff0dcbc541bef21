"""Which of torch's implementations an optimizer uses, changed in place.

In place, so that the user's schedulers and checkpoints keep their optimizer.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

# Which kernel updates the weights is a technique's choice; it is not state.
IMPLEMENTATION_FLAGS = frozenset({"fused", "foreach", "capturable"})
# What torch keeps on a fused optimizer beside its groups.
ATTRIBUTES = ("_step_supports_amp_scaling", "_need_device_dtype_check_for_fused")


def set_flags(optimizer: Optimizer, **flags: bool) -> Callable[[], None]:
    """Set flags such as ``fused`` and ``capturable`` on all groups; returns the undo."""
    before = [{key: group.get(key) for key in flags} for group in optimizer.param_groups]
    defaults = {key: optimizer.defaults.get(key) for key in flags}
    attributes = {key: vars(optimizer)[key] for key in ATTRIBUTES if key in vars(optimizer)}
    _set(optimizer, [flags] * len(before), flags)
    if "fused" in flags:
        vars(optimizer).pop(ATTRIBUTES[0], None)
        if flags["fused"]:
            vars(optimizer)[ATTRIBUTES[0]] = True  # as __init__ does
    _place_step_counters(optimizer)

    def undo() -> None:
        added_since = len(optimizer.param_groups) - len(before)
        _set(optimizer, before + [defaults] * added_since, defaults)
        for name in ATTRIBUTES:
            vars(optimizer).pop(name, None)
        vars(optimizer).update(attributes)
        _place_step_counters(optimizer)

    return undo


def _set(optimizer: Optimizer, groups: list[dict[str, Any]], defaults: dict[str, Any]) -> None:
    for group, flags in zip(optimizer.param_groups, groups, strict=False):
        group.update(flags)
    optimizer.defaults.update(defaults)  # for groups that are added later


def _place_step_counters(optimizer: Optimizer) -> None:
    """Fused and capturable kernels want the step counter beside the parameter, the plain loop
    on the host."""
    for group in optimizer.param_groups:
        on_device = group.get("fused") or group.get("capturable")
        for parameter in group["params"]:
            step = optimizer.state.get(parameter, {}).get("step")
            if isinstance(step, torch.Tensor):
                device = parameter.device if on_device else torch.device("cpu")
                optimizer.state[parameter]["step"] = step.to(device, torch.float32)
