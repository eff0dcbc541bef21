"""The recurrent network that follows a window and reads the charge at its end."""

from typing import Literal

import torch
from torch import Tensor, nn

from hasten.gallery.battery.data import CHANNELS

Layer = Literal["lstm", "gru"]
State = Tensor | tuple[Tensor, Tensor]
"""Of a GRU, and of an LSTM."""


class ChargeNetwork(nn.Module):
    """One value for each window, from what two layers remember at its last second."""

    def __init__(self, hidden: int = 128, layers: int = 2, layer: Layer = "lstm") -> None:
        super().__init__()
        kind = {"lstm": nn.LSTM, "gru": nn.GRU}[layer]
        self.recurrent = kind(CHANNELS, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, windows: Tensor, state: State | None = None) -> Tensor:
        """Without a state the kernel itself begins at zeros, and nothing is allocated for it."""
        outputs, _ = self.recurrent(windows, state)
        charge: Tensor = self.head(outputs[:, -1])
        return charge

    def zero_state(self, rows: int) -> State:
        """In the host's memory, wherever the model is: what is so often written."""
        shape = (self.recurrent.num_layers, rows, self.recurrent.hidden_size)
        if isinstance(self.recurrent, nn.LSTM):
            return torch.zeros(shape), torch.zeros(shape)
        return torch.zeros(shape)


def rmse(outputs: Tensor, targets: Tensor) -> Tensor:
    """The root of the mean squared error."""
    return (outputs - targets).square().mean().sqrt()
