"""The same training as ``gallery:battery``, as a plain script of the kind that it stands for.

Slow on purpose, and to be kept so. Its mistakes, all of them common:

- windows are cut out and copied one by one in a Python loop
- the state of zeros is made on the host and copied to the device for every batch
- ``if torch.isnan(loss)`` and ``if loss < best`` wait for the device in every step
- a callback logs every step, and reads the loss for it
- a gradient scaler is left on in single precision, where there is nothing to scale, waits for the
  device too, and is made anew in every epoch

Run it with ``python -m hasten.gallery.battery.naive``.
"""

import argparse
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from hasten.gallery.battery.data import (
    EVALUATION_SEED,
    LIMITS,
    TRAINING_SEED,
    Recordings,
    make_recordings,
)

TRAINING_CELLS, EVALUATION_CELLS = 4, 2
SECONDS = 5120
WINDOW = 40
STRIDE = 40
HIDDEN = 32
LAYERS = 2
BATCH_SIZE = 32

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class WindowDataset(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, recordings: Recordings) -> None:
        self.windows = []
        self.targets = []
        for drive in range(len(recordings.charge)):
            for start in range(0, len(recordings.charge[drive]) - WINDOW + 1, STRIDE):
                end = start + WINDOW
                channels = []
                for series, (low, high) in zip(
                    (recordings.current, recordings.voltage, recordings.temperature),
                    LIMITS,
                    strict=True,
                ):
                    channels.append(2 * (series[drive][start:end] - low) / (high - low) - 1)
                self.windows.append(np.stack(channels, axis=1))
                self.targets.append([recordings.charge[drive][end - 1]])

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.windows[index]), torch.tensor(self.targets[index])


class ChargeModel(nn.Module):
    def __init__(self, layer: str) -> None:
        super().__init__()
        self.layer = layer
        if layer == "lstm":
            self.rnn: nn.RNNBase = nn.LSTM(3, HIDDEN, LAYERS, batch_first=True)
        else:
            self.rnn = nn.GRU(3, HIDDEN, LAYERS, batch_first=True)
        self.fc = nn.Linear(HIDDEN, 1)

    def init_hidden(self, batch_size: int) -> Any:
        hidden = torch.zeros(LAYERS, batch_size, HIDDEN).to(device)
        if self.layer == "gru":
            return hidden
        return hidden, torch.zeros(LAYERS, batch_size, HIDDEN).to(device)

    def forward(self, x: Tensor, hidden: Any) -> Tensor:
        out, _ = self.rnn(x, hidden)
        charge: Tensor = self.fc(out[:, -1])
        return charge


class LogEveryStep:
    """A callback."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_step_end(self, epoch: int, step: int, loss: Tensor) -> None:
        self.losses.append(loss.item())
        if step % 32 == 0:
            print(f"epoch {epoch + 1} step {step}: loss {loss.item():.6f}")


def train(model: ChargeModel, dataset: WindowDataset, epochs: int) -> list[float]:
    """Train in place. Returns the loss of every step."""
    loader = DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True)
    criterion = nn.MSELoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    log = LogEveryStep()
    best = torch.tensor(math.inf, device=device)
    model.train()
    for epoch in range(epochs):
        scaler = torch.amp.GradScaler(device.type)
        for step, (windows, charge) in enumerate(loader):
            windows, charge = windows.to(device), charge.to(device)
            hidden = model.init_hidden(len(windows))
            optimizer.zero_grad()
            loss = criterion(model(windows, hidden), charge)
            if torch.isnan(loss):
                raise RuntimeError(f"the loss is NaN at step {step} of epoch {epoch + 1}")
            if loss < best:
                best = loss.detach()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            log.on_step_end(epoch, step, loss)
    print(f"best loss {best:.6f}")
    return log.losses


def evaluate(model: ChargeModel, dataset: WindowDataset) -> float:
    """The root of the mean squared error of the charge."""
    squares = []
    model.eval()
    with torch.no_grad():
        for windows, charge in DataLoader(dataset, batch_size=BATCH_SIZE):
            hidden = model.init_hidden(len(windows))
            guessed = model(windows.to(device), hidden)
            for i in range(len(charge)):
                squares.append((guessed[i].item() - charge[i].item()) ** 2)
    return math.sqrt(sum(squares) / len(squares))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layer", choices=("lstm", "gru"), default="lstm")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    dataset = WindowDataset(make_recordings(TRAINING_CELLS, SECONDS, TRAINING_SEED))
    model = ChargeModel(args.layer).to(device)
    train(model, dataset, args.epochs)
    evaluation = WindowDataset(make_recordings(EVALUATION_CELLS, SECONDS, EVALUATION_SEED))
    print(f"rmse: {evaluate(model, evaluation):.4f}")


if __name__ == "__main__":
    main()
