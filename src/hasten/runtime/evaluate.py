"""The loss and the task's own metrics, over its evaluation data."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from hasten.errors import HastenError
from hasten.task import batch as batches
from hasten.task.probing import leaving_no_trace
from hasten.task.task import Batch, Task, as_dataset, not_a_pair, training_device

ROWS = 64
"""Of a batch, where nothing says how many; in evaluation mode it changes no metric."""


@torch.no_grad()
def evaluate(task: Task, tell: Callable[[int], None] = lambda batches: None) -> dict[str, float]:
    """``loss``, the mean by ``task.count``, and each metric of ``task.metrics``, of the model as it
    is, in evaluation mode. A task that carries a state has no loss here.

    A training may go on afterwards as if nothing had happened: modes, attributes, buffers and
    random generators are put back. ``tell`` is called with the number of batches so far; no batch
    waits for the device.
    """
    if task.evaluation_data is None:
        raise HastenError("The task has no evaluation data.", fix="Give Task evaluation_data.")
    model = task.model.to(training_device())
    with leaving_no_trace(model):
        seen = _Seen(task, model)
        for number, batch in enumerate(_loader(task), 1):
            seen.add(batches.move(batch, training_device()))
            tell(number)
        if not seen.batches:
            raise _no_batch()
        return seen.figures()


def refuse_empty(task: Task, *, asks: bool = False) -> None:
    """Early, where evaluation data knows that it has nothing to give. ``asks`` for the first batch
    where it does not know: a stream cannot give that again."""
    if task.evaluation_data is None:
        return
    loader = _loader(task)
    try:
        has_some = len(loader) > 0
    except (TypeError, NotImplementedError):  # a stream, or a dataset without a length
        has_some = not asks or next(iter(loader), None) is not None
    if not has_some:
        raise _no_batch()


def _no_batch() -> HastenError:
    return HastenError(
        "The evaluation data gives no batch.",
        fix="Give Task.evaluation_data some rows, at least one batch of them; or leave it out.",
    )


class _Seen:
    """What was computed so far, on the device."""

    def __init__(self, task: Task, model: nn.Module) -> None:
        self._task, self._model = task, model
        self.batches = 0
        self._outputs: list[Tensor] = []
        self._targets: list[Tensor] = []
        self._losses: list[Tensor] = []
        self._counts: list[int] = []

    def add(self, batch: Batch) -> None:
        task = self._task
        self.batches += 1
        if task.metrics:
            inputs, target = _pair(batch)
            self._outputs.append(self._model(inputs))
            self._targets.append(target)
        if task.initial_state is None:
            if task.loss is not None and task.metrics:
                self._losses.append(task.loss(self._outputs[-1], target))
            else:
                self._losses.append(task.compute_loss(self._model, batch))
            self._counts.append((task.count or batches.rows_in)(batch))

    def figures(self) -> dict[str, float]:
        found: dict[str, float] = {}
        if sum(self._counts):
            # A batch of padding alone counts nothing, and its mean would be 0 / 0.
            weighted = [n * x for n, x in zip(self._counts, self._losses, strict=True) if n]
            found["loss"] = float(torch.stack(weighted).sum()) / sum(self._counts)
        if self._task.metrics:
            output, target = torch.cat(self._outputs), torch.cat(self._targets)
            for name, metric in self._task.metrics.items():
                found[name] = float(metric.compute(output, target))
        return found


def _pair(batch: Batch) -> tuple[Tensor, Tensor]:
    shape = not_a_pair(batch)
    if shape:
        raise HastenError(
            f"A metric needs batches of (input, target), and this one is {shape}.",
            fix="Give Task.evaluation_data of inputs and targets.",
        )
    inputs, target = batch
    return inputs, target


def _loader(task: Task) -> DataLoader[object]:
    data = task.evaluation_data
    assert data is not None  # evaluate has asked
    if isinstance(data, DataLoader):
        return data
    # A loader of the user's own may make its batches without a size.
    size = task.batch_size or task.make_loader().batch_size or ROWS
    return DataLoader(as_dataset(data), batch_size=size)
