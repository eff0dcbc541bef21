"""The recurrent network that follows a window and reads the charge at its end."""

from torch import Tensor, nn

from hasten.gallery.battery.data import CHANNELS

State = tuple[Tensor, Tensor]


class ChargeLSTM(nn.Module):
    """One value for each window, from what two layers remember at its last moment."""

    def __init__(self, hidden: int = 128, layers: int = 2) -> None:
        super().__init__()
        self.lstm = nn.LSTM(CHANNELS, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, windows: Tensor, state: State | None = None) -> Tensor:
        """Without a state the kernel itself begins at zeros, and nothing is allocated for it."""
        outputs, _ = self.lstm(windows, state)
        charge: Tensor = self.head(outputs[:, -1])
        return charge


def mean_absolute_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).abs().mean()
