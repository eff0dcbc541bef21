"""``gallery:battery``: a recurrent network over windows of a battery's sensors, one value out.

Each batch begins with zeros that are made on the host, as in the script. ``recurrent_state`` is the
technique against them; a whole-step graph needs it, as no graph can hold a copy from the host.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import AdamW
from torch.utils.data import TensorDataset

from hasten.gallery.battery.data import (
    AMBIENTS,
    EVALUATION_SEED,
    TRAINING_SEED,
    make_recordings,
    make_windows,
)
from hasten.gallery.battery.model import ChargeNetwork, Layer, State, rmse
from hasten.task.task import Metric, Task


@dataclass(frozen=True, kw_only=True)
class Size:
    cells: int
    evaluation_cells: int
    windows: int
    """Of each of a cell's drives."""
    length: int
    """Of a window, in seconds."""
    stride: int
    """From the begin of a window to that of the next, in seconds."""
    hidden: int
    batch_size: int
    layer: Layer = "lstm"

    @property
    def training_rows(self) -> int:
        return self.cells * len(AMBIENTS) * self.windows

    @property
    def seconds(self) -> int:
        """Of a drive."""
        return self.length + (self.windows - 1) * self.stride


_SMALL = Size(
    cells=4, evaluation_cells=2, windows=128, length=40, stride=40, hidden=32, batch_size=32
)
_FULL = Size(
    cells=25, evaluation_cells=3, windows=600, length=200, stride=10, hidden=128, batch_size=100
)
SIZES = {
    "small": _SMALL,
    "full": _FULL,
    "small-gru": replace(_SMALL, layer="gru"),
    "full-gru": replace(_FULL, layer="gru"),
}


def factory(size: str) -> Callable[[], Task]:
    shape = SIZES[size]

    def make_task() -> Task:
        model = ChargeNetwork(shape.hidden, layer=shape.layer)
        return Task(
            model=model,
            data=make_dataset(shape, shape.cells, TRAINING_SEED),
            batch_size=shape.batch_size,
            forward=squared_error,
            initial_state=lambda batch: model.zero_state(len(batch[0])),
            state_resets="batch",
            optimizer=lambda parameters: AdamW(parameters, lr=1e-3),
            evaluation_data=make_dataset(shape, shape.evaluation_cells, EVALUATION_SEED),
            metrics={"rmse": Metric(compute=rmse, higher_is_better=False)},
        )

    return make_task


def squared_error(model: nn.Module, batch: Any, state: State | None) -> tuple[Tensor, None]:
    """The mean of a batch; no state goes on to the next one."""
    windows, charge = batch
    return F.mse_loss(model(windows, state), charge), None


def make_dataset(size: Size, cells: int, seed: int) -> TensorDataset:
    recordings = make_recordings(cells, size.seconds, seed)
    return TensorDataset(*make_windows(recordings, size.length, size.stride))
