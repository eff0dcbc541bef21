"""Reads what the model, the data and the loss of a pipeline are."""

import math
from collections import Counter
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils import _pytree as pytree
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    TensorDataset,
    default_collate,
)

from hasten.records.finding import Place
from hasten.records.traits import (
    Attention,
    DataTraits,
    Family,
    ModelTraits,
    OptimizerTraits,
    Reduction,
    Traits,
)
from hasten.task import batch as batches
from hasten.task.attending import MaskWatch, attending_by
from hasten.task.autograd import attention_in
from hasten.task.digest import digest
from hasten.task.pipeline import Pipeline
from hasten.task.probing import leaving_no_trace
from hasten.task.seed import random_state, restore_random_state, same_host_random_state

FAMILIES: dict[Family, tuple[type[nn.Module], ...]] = {
    "attention": (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer),
    "batchnorm": (nn.modules.batchnorm._BatchNorm,),
    "conv": (nn.modules.conv._ConvNd,),
    "dropout": (nn.modules.dropout._DropoutNd,),
    "embedding": (nn.Embedding, nn.EmbeddingBag),
    "linear": (nn.Linear,),
    "recurrent": (nn.RNNBase, nn.RNNCellBase),
}
FUSED_OPTIMIZERS = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)
REDUCTION_TOLERANCE = 1e-4
"""Relative; an fp32 loss over halves is within 1e-6 of the whole, a coupled one is percent off."""

ORDINARY_ERRORS = (
    LookupError,
    TypeError,
    ValueError,
    OSError,
    RuntimeError,
    AttributeError,
    ArithmeticError,
)
"""Of a dataset that is asked for a row that it does not have."""


def read_traits(pipeline: Pipeline, batch: Any | None = None) -> Traits:
    """Reads without disturbing: the random generators and the model's mode are put back.

    ``batch`` is used to probe how the loss combines rows; without one that stays unknown.
    """
    reduction: Reduction = "unknown" if batch is None else _loss_reduction(pipeline, batch)
    reduction = _by_the_users_word(pipeline, reduction)
    return Traits(
        model=_model_traits(pipeline, batch),
        data=_data_traits(pipeline.loader),
        optimizers=tuple(_optimizer_traits(each) for each in pipeline.optimizers),
        loss_reduction=reduction,
    )


def probe_reduction(pipeline: Pipeline, batch: Any) -> Reduction:
    """How the loss of a batch that is to be split combines rows; BatchNorm couples them too."""
    if normalizes_batches(pipeline.model):
        return "coupled"
    return _by_the_users_word(pipeline, _loss_reduction(pipeline, batch))


def normalizes_batches(model: nn.Module) -> bool:
    """Whether a layer of the model takes statistics of a batch, as training BatchNorm does."""
    return any(
        isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training for m in model.modules()
    )


def _by_the_users_word(pipeline: Pipeline, reduction: Reduction) -> Reduction:
    if pipeline.couples_batch is None:
        return reduction
    if pipeline.couples_batch:
        return "coupled"
    return "unknown" if reduction == "coupled" else reduction


def _model_traits(pipeline: Pipeline, batch: Any | None) -> ModelTraits:
    model = pipeline.model
    masks = MaskWatch()
    with attending_by(masks.attend):
        attention, place = _attention(pipeline, batch)
    parameters = list(model.parameters())
    modules = list(model.modules())
    families = [name for name, kinds in FAMILIES.items() if _any_of(modules, kinds)]
    return ModelTraits(
        name=type(model).__name__,
        parameters=sum(p.numel() for p in parameters),
        parameter_bytes=sum(p.numel() * p.element_size() for p in parameters),
        families=tuple(families),
        repeated_blocks=tuple(sorted({type(each).__name__ for each in repeated_blocks(model)})),
        attention=attention,
        masks_attention=masks.has_seen,
        hand_written_attention=place,
        resets_state=pipeline.initial_state is not None and pipeline.state_resets == "batch",
        draws_random=batch is not None and _draws_random(pipeline, batch),
    )


@torch.no_grad()
def _draws_random(pipeline: Pipeline, batch: Any) -> bool:
    """By one forward pass as it is in training; a generator of the model's own is not seen."""
    modes = {module: module.training for module in pipeline.model.modules()}
    with leaving_no_trace(pipeline.model):
        for module, mode in modes.items():
            module.training = mode
        before = digest(random_state())
        _loss(pipeline, batches.move(batch, pipeline.device))
        return digest(random_state()) != before


def _any_of(modules: list[nn.Module], kinds: tuple[type[nn.Module], ...]) -> bool:
    return any(isinstance(module, kinds) for module in modules)


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """Modules with parts of their own of which a container holds several alike."""
    found: list[nn.Module] = []
    for module in model.modules():
        if isinstance(module, nn.ModuleList | nn.Sequential):
            kinds = Counter(type(child) for child in module if any(child.children()))
            found += [child for child in module if kinds[type(child)] > 1]
    return _outermost(found)


def _outermost(blocks: list[nn.Module]) -> list[nn.Module]:
    """Without those inside another one, and each once."""
    inside = {id(part) for block in blocks for part in block.modules() if part is not block}
    return list({id(block): block for block in blocks if id(block) not in inside}.values())


def _data_traits(loader: object) -> DataTraits:
    if not isinstance(loader, DataLoader):
        return DataTraits(
            kind="other",
            rows=None,
            batch_size=None,
            workers=0,
            default_collate=False,
            draws_random=None,
        )
    dataset = loader.dataset
    iterable = isinstance(dataset, IterableDataset)
    tensors = type(dataset) is TensorDataset
    return DataTraits(
        kind="iterable" if iterable else "tensors" if tensors else "map",
        rows=len(dataset) if not iterable and hasattr(dataset, "__len__") else None,
        batch_size=loader.batch_size,
        workers=loader.num_workers,
        default_collate=loader.collate_fn is default_collate,
        draws_random=None if iterable else draws_random(dataset),
    )


def draws_random(dataset: Any) -> bool | None:
    """Read the first item twice: did it read differently, or move a random generator?

    Shows randomness, never its absence: an item further on may still be random.
    """
    if hasattr(dataset, "__len__") and not len(dataset):
        return None
    state = random_state()
    try:
        first, second = pytree.tree_leaves(dataset[0]), pytree.tree_leaves(dataset[0])
        moved = not same_host_random_state(state)
    except ORDINARY_ERRORS:
        return None  # a sampler gives it other keys than numbers, or leaves the first row out
    finally:
        restore_random_state(state)
    return moved or len(first) != len(second) or any(map(_differ, first, second))


def _differ(one: Any, other: Any) -> bool:
    """Whether two readings are known to differ; NaN is the same as NaN here."""
    if type(one) is not type(other):
        return True
    if isinstance(one, Tensor | np.ndarray):
        if one.shape != other.shape:
            return True
        return bool(((one != other) & ((one == one) | (other == other))).any())
    comparable = isinstance(one, Number | np.generic | str | bytes)
    return comparable and bool(one != other and (one == one or other == other))


def can_fuse(optimizer: Optimizer) -> bool:
    """Whether torch has a fused kernel for this optimizer and all of its parameters."""
    groups = optimizer.param_groups
    return (
        type(optimizer) in FUSED_OPTIMIZERS
        and all(p.is_floating_point() and p.layout == torch.strided for p in _parameters(optimizer))
        and not any(group.get("differentiable") for group in groups)
    )


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _optimizer_traits(optimizer: Optimizer) -> OptimizerTraits:
    groups = optimizer.param_groups
    flags = {name: all(group.get(name) for group in groups) for name in ("fused", "foreach")}
    known = type(optimizer) in FUSED_OPTIMIZERS
    default_foreach = all(group.get("foreach") is None for group in groups) and any(
        p.device.type == "cuda" for p in _parameters(optimizer)
    )
    if flags["fused"]:
        implementation = "fused"
    elif flags["foreach"] or (known and default_foreach):
        implementation = "foreach"
    else:
        implementation = "loop" if known else "other"
    return OptimizerTraits(
        name=type(optimizer).__name__,
        implementation=implementation,  # type: ignore[arg-type]
        can_fuse=can_fuse(optimizer),
    )


def _attention(pipeline: Pipeline, batch: Any | None) -> tuple[tuple[Attention, ...], Place | None]:
    """By one forward pass, in the mode in which torch notes the line that made each node."""
    if batch is None or pipeline.initial_state is not None:
        return (), None
    noting = torch.autograd.set_detect_anomaly(True, check_nan=False)
    with leaving_no_trace(pipeline.model), torch.enable_grad(), noting:
        return attention_in(_loss(pipeline, batches.move(batch, pipeline.device)))


@torch.no_grad()
def _loss_reduction(pipeline: Pipeline, batch: Any) -> Reduction:
    """Compare the whole batch's loss with its halves' (method of the coupling probe).

    In evaluation mode, so that dropout and BatchNorm do not differ between the pieces; BatchNorm
    couples rows all the same and is found by its type. Limits: a loss that couples rows only in
    training mode is not seen.
    """
    if pipeline.initial_state is not None and pipeline.state_resets == "epoch":
        return "unknown"
    batch = batches.move(batch, pipeline.device)
    sizes = batches.ragged_halves(batches.rows_in(batch), pipeline.batch_multiple_of)
    if sizes is None:
        return "unknown"
    with leaving_no_trace(pipeline.model):
        pieces = batches.split(batch, sizes)
        loss = _loss(pipeline, batch)
        whole = float(loss)
        parts = [float(_loss(pipeline, piece)) for piece in pieces]
    if not whole or not math.isfinite(whole):
        return "unknown"  # zero is both the mean and the sum of zeros
    counts = [pipeline.count(piece) for piece in pieces]
    # A piece of padding alone counts nothing, and its mean is 0 / 0.
    parts = [part if n else 0.0 for n, part in zip(counts, parts, strict=True)]
    mean = sum(n * part for n, part in zip(counts, parts, strict=True)) / max(sum(counts), 1)
    scale = abs(whole) * max(REDUCTION_TOLERANCE, 2 * torch.finfo(loss.dtype).eps)
    if abs(whole - mean) <= scale:
        return "mean"
    return "sum" if abs(whole - sum(parts)) <= scale else "coupled"


def _loss(pipeline: Pipeline, batch: Any) -> Tensor:
    if pipeline.initial_state is None:
        loss: Tensor = pipeline.forward(pipeline.model, batch)
        return loss
    given = () if pipeline.state_resets == "epoch" else (batch,)
    state = batches.move(pipeline.initial_state(*given), pipeline.device)
    loss, _ = pipeline.forward(pipeline.model, batch, state)
    return loss
