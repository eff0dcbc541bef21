"""The same training as ``gallery:microbiome``, as a plain script of the kind that it stands for.

Slow on purpose, and to be kept so. Its mistakes, all of them common:

- reads are turned into tokens in ``__getitem__``, letter by letter, again in every epoch
- UniFrac is computed again for every batch, pair by pair and node by node in Python
- distances between embeddings are a graph of small operations for each pair
- attention is written out, and stores every score
- ``forward`` asks the device questions (``.any()``, ``.max()``) and branches on the answers
- the loop waits for the device at every step (``isnan``, ``.item()``) and empties its cache

Run it with ``python -m hasten.gallery.microbiome.naive``.
"""

import argparse
import gc
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from hasten.gallery.microbiome.data import EVALUATION_SEED, TRAINING_SEED, Samples, make_samples
from hasten.gallery.microbiome.tree import Tree

TRAINING_ROWS, EVALUATION_ROWS = 512, 64
SEQUENCES, LENGTH, TIPS = 12, 24, 48
WIDTH, HEADS, COORDINATES = 32, 4, 16
BATCH_SIZE = 8
PADDING = 0
TOKENS = {"A": 1, "C": 2, "G": 3, "T": 4, "N": 5}

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class MicrobiomeDataset(Dataset[Any]):
    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples.reads)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, int]:
        rows = []
        for read in self.samples.reads[index]:
            tokens = []
            for letter in read:
                tokens.append(TOKENS[letter])
            while len(tokens) < LENGTH:
                tokens.append(PADDING)
            rows.append(torch.tensor(tokens))
        trait = torch.tensor(self.samples.trait[index], dtype=torch.float32)
        return torch.stack(rows), trait, index


def make_dataset(rows: int, seed: int) -> MicrobiomeDataset:
    return MicrobiomeDataset(make_samples(rows, SEQUENCES, LENGTH, TIPS, seed))


def branch_shares(tree: Tree, counts: list[int]) -> dict[int, float]:
    """What part of a sample lies below each node."""
    parents = tree.parent.tolist()
    tips = sorted(set(range(len(parents))) - set(parents))
    shares: dict[int, float] = {}
    for tip, count in zip(tips, counts, strict=True):
        node = tip
        while count and node >= 0:
            shares[node] = shares.get(node, 0.0) + count / sum(counts)
            node = parents[node]
    return shares


def unifrac(samples: Samples, first: int, second: int) -> float:
    """The normalized weighted UniFrac distance of two samples."""
    a = branch_shares(samples.tree, samples.table[first].tolist())
    b = branch_shares(samples.tree, samples.table[second].tolist())
    difference, total = 0.0, 0.0
    for node, length in enumerate(samples.tree.length.tolist()):
        difference += length * abs(a.get(node, 0.0) - b.get(node, 0.0))
        total += length * (a.get(node, 0.0) + b.get(node, 0.0))
    return difference / total


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.norm1(x), mask)
        if x.abs().max() > 1e4:  # keep it from exploding
            x = x.clamp(-1e4, 1e4)
        return x + self.mlp(self.norm2(x))  # type: ignore[no-any-return]

    def attention(self, x: Tensor, mask: Tensor | None) -> Tensor:
        rows, length, _ = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(rows, length, HEADS, -1).transpose(1, 2)
        k = k.view(rows, length, HEADS, -1).transpose(1, 2)
        v = v.view(rows, length, HEADS, -1).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(WIDTH // HEADS)
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :], float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        x = torch.matmul(weights, v).transpose(1, 2).reshape(rows, length, WIDTH)
        return self.out(x)  # type: ignore[no-any-return]


class MicrobiomeModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1 + len(TOKENS), WIDTH)
        self.positions = nn.Parameter(torch.randn(1, LENGTH, WIDTH))
        self.base_encoder = Block()
        self.sample_encoder = Block()
        self.head = nn.Linear(WIDTH, 1 + COORDINATES)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        samples = len(tokens)
        tokens = tokens.view(samples * SEQUENCES, LENGTH)
        mask = tokens == PADDING
        x = self.embedding(tokens) + self.positions
        x = self.base_encoder(x, mask) if mask.any() else self.base_encoder(x)
        sequences = x.mean(dim=1).view(samples, SEQUENCES, WIDTH)
        output = self.head(self.sample_encoder(sequences).mean(dim=1))
        return output[:, 0], output[:, 1:]


def distance(a: Tensor, b: Tensor) -> Tensor:
    return torch.sqrt(((a - b) ** 2).sum() + 1e-8)


def train(model: nn.Module, dataset: MicrobiomeDataset, epochs: int) -> list[float]:
    """Train in place. Returns the loss of every step."""
    loader = DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    model.train()
    for epoch in range(epochs):
        for tokens, trait, index in loader:
            if len(index) % 2 != 0:
                raise ValueError("batch size must be even")
            tokens, trait = tokens.to(device), trait.to(device)
            optimizer.zero_grad()
            predicted, embedding = model(tokens)
            errors = []
            for i in range(len(index)):
                for j in range(i + 1, len(index)):
                    target = unifrac(dataset.samples, index[i].item(), index[j].item())
                    errors.append((distance(embedding[i], embedding[j]) - target) ** 2)
            loss = ((predicted - trait) ** 2).mean() + 10 * torch.stack(errors).mean()
            if torch.isnan(loss):
                print("loss is NaN, skipping batch")
                continue
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            torch.cuda.empty_cache()
        gc.collect()
        epoch_loss = sum(losses[-len(loader) :]) / len(loader)
        print(f"epoch {epoch + 1}: loss {epoch_loss:.4f}")
    return losses


def evaluate(model: nn.Module, dataset: MicrobiomeDataset) -> tuple[float, float]:
    """The mean absolute error of the trait, and how distances correlate with UniFrac."""
    errors, embeddings = [], []
    model.eval()
    with torch.no_grad():
        for i in range(len(dataset)):
            tokens, trait, _ = dataset[i]
            predicted, embedding = model(tokens[None].to(device))
            errors.append(abs(predicted[0].item() - trait.item()))
            embeddings.append(embedding[0])
    found, true = [], []
    for i in range(len(dataset)):
        for j in range(i + 1, len(dataset)):
            found.append(distance(embeddings[i], embeddings[j]).item())
            true.append(unifrac(dataset.samples, i, j))
    correlation = torch.corrcoef(torch.tensor([found, true]))[0, 1].item()
    return sum(errors) / len(errors), correlation


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    training = make_dataset(TRAINING_ROWS, TRAINING_SEED)
    model = MicrobiomeModel().to(device)
    train(model, training, args.epochs)
    error, correlation = evaluate(model, make_dataset(EVALUATION_ROWS, EVALUATION_SEED))
    print(f"unifrac_correlation: {correlation:.4f}")
    print(f"mean_absolute_error: {error:.4f}")


if __name__ == "__main__":
    main()
