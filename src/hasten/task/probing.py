"""Asking a model something without leaving a trace in it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from hasten.task.seed import random_state, restore_random_state
from hasten.task.settings import Attributes


@contextmanager
def leaving_no_trace(model: nn.Module) -> Iterator[None]:
    """In evaluation mode; modes, attributes, buffers and random generators are put back.

    Nor does torch's sync debugging tell of it: whoever looks at a step's waits wants the step's.
    """
    with _waits_untold(), _putting_back(model):
        yield


@contextmanager
def _waits_untold() -> Iterator[None]:
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        yield
        return
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("default")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(mode)


@contextmanager
def _putting_back(model: nn.Module) -> Iterator[None]:
    attributes, random = Attributes(model.modules()), random_state()
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    tables = [(module, dict(module._buffers)) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        attributes.restore()
        restore_random_state(random)
        for module, table in tables:
            module._buffers.clear()
            module._buffers.update(table)
        with torch.no_grad():
            for buffer, kept in buffers:
                buffer.copy_(kept)
