"""Reads what a technique must leave as it was: torch's settings, a model, an optimizer."""

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils import _pytree as pytree


def torch_settings() -> dict[str, object]:
    """Every process-wide switch of torch that changes what a training computes."""
    cuda = torch.backends.cuda
    return {
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "deterministic warns": torch.is_deterministic_algorithms_warn_only_enabled(),
        "cudnn enabled": torch.backends.cudnn.enabled,
        "cudnn benchmark": torch.backends.cudnn.benchmark,
        "cudnn deterministic": torch.backends.cudnn.deterministic,
        "cudnn tf32": torch.backends.cudnn.allow_tf32,
        "matmul tf32": cuda.matmul.allow_tf32,
        "matmul reduced fp16": cuda.matmul.allow_fp16_reduced_precision_reduction,
        "matmul reduced bf16": cuda.matmul.allow_bf16_reduced_precision_reduction,
        "flash attention": cuda.flash_sdp_enabled(),
        "memory-efficient attention": cuda.mem_efficient_sdp_enabled(),
        "math attention": cuda.math_sdp_enabled(),
        "cudnn attention": cuda.cudnn_sdp_enabled(),
        "attention function": torch.nn.functional.scaled_dot_product_attention,
        "mkldnn": torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled,
        "threads": torch.get_num_threads(),
        "interop threads": torch.get_num_interop_threads(),
        "gradients": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "anomalies": torch.is_anomaly_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "flush denormals": bool(torch.tensor([1e-40]).mul(1.0).item() == 0.0),
    }


def random_settings() -> dict[str, object]:
    return {
        "torch": bits(torch.get_rng_state()),
        "numpy": str(np.random.get_state(legacy=False)["state"]),
        "python": random.getstate(),
    }


def model_bits(model: nn.Module) -> dict[str, object]:
    """The form of a model, and every tensor of it."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {
        "form": model_form(model),
        "state": {key: bits(value) for key, value in model.state_dict().items()},
        "tensors": {key: bits(value) for key, value in tensors.items()},
    }


def model_form(model: nn.Module) -> dict[str, object]:
    """What a model is apart from its numbers: classes, attributes, hooks, identities."""
    return {
        "keys": list(model.state_dict()),
        "call": model._compiled_call_impl,
        "parameters": [(id(each), each.requires_grad) for each in model.parameters()],
        "layouts": [(each.dtype, each.device, each.stride()) for each in model.parameters()],
        "modules": {
            name: (type(module), module.training, sorted(vars(module)), _hooks(module))
            for name, module in model.named_modules()
        },
    }


def optimizer_bits(optimizer: Optimizer) -> dict[str, object]:
    held = optimizer.state_dict()["state"]
    return {"form": optimizer_form(optimizer), "state": pytree.tree_map_only(Tensor, bits, held)}


def optimizer_form(optimizer: Optimizer) -> dict[str, object]:
    """What an optimizer is apart from its numbers: settings, attributes, where its state lies."""
    plain = {
        key: value
        for key, value in vars(optimizer).items()
        if isinstance(value, bool | int | float | str | None)
    }
    return {
        "type": type(optimizer),
        "attributes": sorted(vars(optimizer)),
        "values": plain,
        "defaults": dict(optimizer.defaults),
        "groups": [
            {key: value for key, value in group.items() if key != "params"}
            for group in optimizer.param_groups
        ],
        "state": pytree.tree_map_only(
            Tensor,
            lambda each: (each.dtype, each.device, each.stride()),
            optimizer.state_dict()["state"],
        ),
    }


def bits(tensor: Tensor) -> tuple[Any, ...]:
    """Equal where dtype, shape and every bit are equal, be it a NaN's."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return tensor.dtype, tuple(tensor.shape), flat.view(torch.uint8).numpy().tobytes()


def _hooks(module: nn.Module) -> dict[str, int]:
    return {name: len(value) for name, value in vars(module).items() if name.endswith("_hooks")}
