"""The same training as ``gallery:bloom``, as a plain script of the kind that it stands for.

Slow on purpose, and to be kept so. Its mistakes, all of them common:

- the table goes through ``apply`` row by row, and bit strings through ``list(bits)`` bit by bit
- 2-grams are looked up in lists
- ``__getitem__`` makes the tensors of one person, and again in every epoch
- batches wait to be copied, and every step waits for ``loss.item()``
- guesses are decoded by one ``.item()`` for each of the 676 2-grams

Needs pandas. Run it with ``python -m hasten.gallery.bloom.naive``.
"""

import argparse
import string
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from hasten.gallery.bloom.data import EVALUATION_SEED, TRAINING_SEED, make_persons, write_table

try:
    import pandas as pd
except ImportError as error:
    raise SystemExit(
        f"This script reads its table with pandas ({error}). Run: pip install 'hasten[data]'"
    ) from error

TRAINING_ROWS, EVALUATION_ROWS = 4096, 512
BATCH_SIZE = 64
ALL_TWO_GRAMS = [a + b for a in string.ascii_lowercase for b in string.ascii_lowercase]

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def extract_two_grams(name: str) -> list[str]:
    two_grams = [name[i : i + 2] for i in range(len(name) - 1)]
    return [two_gram for two_gram in two_grams if two_gram in ALL_TWO_GRAMS]


def read_table(path: Path) -> pd.DataFrame:
    # Someone may be called Nan: no text is taken for a missing value.
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table["bit_list"] = table["bits"].apply(lambda bits: [int(bit) for bit in list(bits)])
    table["two_grams"] = table.apply(
        lambda row: extract_two_grams(row["given_name"]) + extract_two_grams(row["surname"]),
        axis=1,
    )
    return table


class PersonDataset(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        row = self.table.iloc[index]
        bits, two_grams = row["bit_list"], row["two_grams"]
        labels = [1 if two_gram in two_grams else 0 for two_gram in ALL_TWO_GRAMS]
        return torch.tensor(bits, dtype=torch.float32), torch.tensor(labels, dtype=torch.float32)


def load_dataset(rows: int, seed: int) -> PersonDataset:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "persons.csv"
        write_table(make_persons(rows, seed), path)
        return PersonDataset(read_table(path))


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Linear(1024, 512),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(512, 256),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(256, len(ALL_TWO_GRAMS)),
    )


def train(model: nn.Module, dataset: PersonDataset, epochs: int) -> list[float]:
    """Train in place. Returns the loss of every step."""
    loader = DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True)
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    model.train()
    for epoch in range(epochs):
        for inputs, labels in loader:
            inputs, labels = inputs.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        epoch_loss = sum(losses[-len(loader) :]) / len(loader)
        print(f"epoch {epoch + 1}: loss {epoch_loss:.4f}")
    return losses


def decode(row: Tensor) -> list[str]:
    """The 2-grams whose probability is over one half."""
    return [two_gram for i, two_gram in enumerate(ALL_TWO_GRAMS) if row[i].item() > 0.5]


def evaluate(model: nn.Module, dataset: PersonDataset) -> float:
    """The mean Dice coefficient of guessed and true 2-grams."""
    scores = []
    model.eval()
    with torch.no_grad():
        for inputs, labels in DataLoader(dataset, batch_size=BATCH_SIZE):
            probabilities = torch.sigmoid(model(inputs.to(device)))
            for row, label in zip(probabilities, labels, strict=True):
                guessed, true = decode(row), decode(label)
                shared = [two_gram for two_gram in guessed if two_gram in true]
                scores.append(2 * len(shared) / (len(guessed) + len(true)))
    return sum(scores) / len(scores)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    dataset = load_dataset(TRAINING_ROWS, TRAINING_SEED)
    model = make_model().to(device)
    train(model, dataset, args.epochs)
    evaluation = load_dataset(EVALUATION_ROWS, EVALUATION_SEED)
    print(f"dice: {evaluate(model, evaluation):.4f}")


if __name__ == "__main__":
    main()
