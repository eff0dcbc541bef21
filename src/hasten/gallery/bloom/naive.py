"""The same training as ``gallery:bloom``, as a plain script of the kind that it stands for.

Slow on purpose, and to be kept so: it encodes row by row and character by character, searches
lists, collates single rows, and reads numbers from the device one at a time.
Run it with ``python -m hasten.gallery.bloom.naive``.
"""

import argparse
import string

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from hasten.gallery.bloom.data import EVALUATION_SEED, TRAINING_SEED, Persons, make_persons

BATCH_SIZE = 64
ALL_TWO_GRAMS = [a + b for a in string.ascii_lowercase for b in string.ascii_lowercase]

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def bits_to_tensor(bits: str) -> Tensor:
    return torch.tensor([int(bit) for bit in list(bits)], dtype=torch.float32)


def extract_two_grams(name: str) -> list[str]:
    two_grams = [name[i : i + 2] for i in range(len(name) - 1)]
    return [two_gram for two_gram in two_grams if two_gram in ALL_TWO_GRAMS]


def names_to_tensor(given_name: str, surname: str) -> Tensor:
    two_grams = extract_two_grams(given_name) + extract_two_grams(surname)
    labels = [1 if two_gram in two_grams else 0 for two_gram in ALL_TWO_GRAMS]
    return torch.tensor(labels, dtype=torch.float32)


def make_dataset(persons: Persons) -> TensorDataset:
    inputs = []
    labels = []
    for i in range(len(persons.bits)):
        inputs.append(bits_to_tensor(persons.bits[i]))
        labels.append(names_to_tensor(persons.given_name[i], persons.surname[i]))
    return TensorDataset(torch.stack(inputs), torch.stack(labels))


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


def train(model: nn.Module, dataset: TensorDataset, epochs: int) -> list[float]:
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


def evaluate(model: nn.Module, dataset: TensorDataset) -> float:
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--evaluation-rows", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    dataset = make_dataset(make_persons(args.rows, TRAINING_SEED))
    model = make_model().to(device)
    train(model, dataset, args.epochs)
    evaluation = make_dataset(make_persons(args.evaluation_rows, EVALUATION_SEED))
    print(f"Dice coefficient: {evaluate(model, evaluation):.4f}")


if __name__ == "__main__":
    main()
