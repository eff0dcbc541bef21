"""The arithmetic of one step: what is multiplied, in which type, and what is merely moved.

Method: forward and backward run eagerly under a dispatch mode that sees every operation. Products,
convolutions and attention are counted by torch's own formulas, recurrent layers and attention on
the CPU by ours, each under the type that it is computed in. Every other operation counts what it
reads and writes, once each.

Limits: a causal mask is counted as full attention, as torch does. Code that was compiled runs
eagerly here. Kernels of others, such as Triton's, are not seen. What fits into a cache is counted
as moved although memory does not see it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import (
    flop_registry,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from hasten.measure.blocks import without_update
from hasten.measure.messages import WorkCounted
from hasten.runtime.run import Run

aten = torch.ops.aten
NAMES = {
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float64: "fp64",
}

ONLY_WRITE = (aten.copy_, aten.fill_, aten.zero_)
"""Into their first argument, which they do not read."""


def count_work(run: Run, source: Iterator[Any]) -> WorkCounted:
    """Of the next step, which does not update."""
    batch, counting = next(source), _Counting()
    with torch.compiler.set_stance("force_eager"), without_update(run), counting:
        run.eager(batch)
    return WorkCounted(flops=dict(counting.flops), moved_bytes=counting.moved_bytes)


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops: dict[str, float] = defaultdict(float)
        self.moved_bytes = 0.0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        kwargs = kwargs or {}
        formula = OURS.get(func._overloadpacket) or flop_registry.get(func._overloadpacket)
        if formula is None and func not in (aten.linear.default, aten.matmul.default):
            out = func(*args, **kwargs)
            self.moved_bytes += _moved_bytes(func, (args, kwargs), out)
            return out
        if formula is None:  # where nothing is differentiated they arrive whole
            with self:
                return func.decompose(*args, **kwargs)
        out = func(*args, **kwargs)
        self.flops[computed_in(func, args)] += formula(*args, **kwargs, out_val=out)
        return out


def computed_in(func: Any, args: Any) -> str:
    """The type of a product, by its first input and by what torch may make of fp32."""
    first = next(leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, Tensor))
    name = NAMES.get(first.dtype, str(first.dtype).removeprefix("torch."))
    if name == "fp32" and first.device.type == "cuda" and _fp32_precision(func) == "tf32":
        return "tf32"
    return name


def _fp32_precision(func: Any) -> str:
    """As it is set for convolutions, for recurrent layers and for all else; "none" inherits."""
    name = str(func)
    backends: Any = torch.backends
    if "convolution" in name:
        own = backends.cudnn.conv.fp32_precision
    elif "rnn" in name:
        own = backends.cudnn.rnn.fp32_precision
    else:
        own = backends.cuda.matmul.fp32_precision
    return str(backends.fp32_precision if own == "none" else own)


def _moved_bytes(func: Any, given: Any, out: Any) -> int:
    """Nothing for a view and for memory that is only set aside."""
    inputs, outputs = _tensors(given), _tensors(out)
    if "empty" in func._overloadpacket.__name__:
        return 0
    storages = {each.untyped_storage()._cdata for each in inputs}
    aliases = any(each.untyped_storage()._cdata in storages for each in outputs)
    if aliases and not func._schema.is_mutable:
        return 0
    read = inputs[1:] if func._overloadpacket in ONLY_WRITE else inputs
    return sum(map(_bytes, [*read, *outputs]))


def _tensors(values: Any) -> list[Tensor]:
    leaves = pytree.tree_leaves(values)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.layout == torch.strided]


def _bytes(tensor: Tensor) -> int:
    """Of an expanded tensor only what is there."""
    return min(tensor.nbytes, tensor.untyped_storage().nbytes())


def _recurrent_flops(inputs: Tensor, weights: list[Tensor]) -> int:
    """Every weight matrix is multiplied with one vector per row and moment."""
    vectors = inputs.numel() // inputs.shape[-1]
    return 2 * vectors * sum(prod(each.shape) for each in weights if each.dim() == 2)


def _of_cudnn(inputs: Tensor, weight: list[Tensor], *_: Any, out_val: Any) -> int:
    return _recurrent_flops(inputs, weight)


def _of_mkldnn(inputs: Tensor, one: Tensor, other: Tensor, *_: Any, out_val: Any) -> int:
    return _recurrent_flops(inputs, [one, other])


def _twice(formula: Callable[..., int]) -> Callable[..., int]:
    """Backward: once for the inputs and once for the weights."""
    return lambda *args, **kwargs: 2 * formula(*args, **kwargs)


def _of_attention(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query.shape, key.shape, value.shape))  # type: ignore[no-untyped-call]


def _of_attention_backward(out: Tensor, *args: Any, **_: Any) -> int:
    shapes = [each.shape for each in (out, *args[:3])]
    return int(sdpa_backward_flop_count(*shapes))  # type: ignore[no-untyped-call]


OURS: dict[Any, Callable[..., int]] = {
    aten._cudnn_rnn: _of_cudnn,
    aten._cudnn_rnn_backward: _twice(_of_cudnn),
    aten.mkldnn_rnn_layer: _of_mkldnn,
    aten.mkldnn_rnn_layer_backward: _twice(_of_mkldnn),
    aten._scaled_dot_product_flash_attention_for_cpu: _of_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _of_attention_backward,
}
"""What torch has no formula for."""
