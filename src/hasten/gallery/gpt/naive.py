"""The same training as ``gallery:gpt``, as a plain script of the kind that it stands for.

Slow on purpose, and to be kept so. Its mistakes, all of them common:

- attention is written out as in the papers, so that every score is stored, in each head and block
- all arithmetic is in fp32
- the text is a Python list of numbers, and each item is sliced out of it and made a tensor anew
- batches are made, and copied from pageable memory, while the device waits
- the loss is read with ``.item()`` in every step

Run it with ``python -m hasten.gallery.gpt.naive``.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from hasten.gallery.gpt.data import EVALUATION_SEED, TRAINING_SEED, draw_starts
from hasten.gallery.gpt.library import read_library

VOCABULARY = 256  # bytes
LENGTH = 64
WIDTH = 48
HEADS = 4
BLOCKS = 2
BATCH_SIZE = 8
TRAINING_ROWS = 4096
EVALUATION_ROWS = 256

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class TextDataset(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, text: bytes, rows: int, seed: int) -> None:
        self.tokens = [int(byte) for byte in text]
        self.starts = draw_starts(len(text), rows, LENGTH, seed).tolist()

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        start = self.starts[index]
        chunk = self.tokens[start : start + LENGTH + 1]
        return torch.tensor(chunk[:-1]), torch.tensor(chunk[1:])


class CausalSelfAttention(nn.Module):
    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.tril(torch.ones(LENGTH, LENGTH)))

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        query, key, value = self.query_key_value(x).split(width, dim=2)
        query = query.view(rows, length, HEADS, width // HEADS).transpose(1, 2)
        key = key.view(rows, length, HEADS, width // HEADS).transpose(1, 2)
        value = value.view(rows, length, HEADS, width // HEADS).transpose(1, 2)
        scores = query @ key.transpose(-2, -1) / math.sqrt(key.size(-1))
        scores = scores.masked_fill(self.mask[:length, :length] == 0, float("-inf"))
        attention = F.softmax(scores, dim=-1)
        x = (attention @ value).transpose(1, 2).contiguous().view(rows, length, width)
        projected: Tensor = self.projection(x)
        return projected


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.expansion = nn.Linear(WIDTH, 4 * WIDTH)
        self.projection = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.expansion(x), approximate="tanh")
        projected: Tensor = self.projection(x)
        return projected


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(WIDTH)
        self.attention = CausalSelfAttention()
        self.norm_2 = nn.LayerNorm(WIDTH)
        self.mlp = MLP()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        added: Tensor = self.mlp(self.norm_2(x))
        return x + added


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.position_embedding = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(BLOCKS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.token_embedding.weight
        self.apply(self.init_weights)
        for name, weight in self.named_parameters():
            if name.endswith("projection.weight"):
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * BLOCKS))

    def init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.size(1), device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def train(model: nn.Module, dataset: TextDataset, steps: int) -> list[float]:
    """Train in place. Returns the loss of every step."""
    loader = DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses: list[float] = []
    model.train()
    while len(losses) < steps:
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            optimizer.zero_grad()
            loss = criterion(model(inputs).view(-1, VOCABULARY), targets.view(-1))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) % 100 == 0:
                print(f"step {len(losses)}: loss {losses[-1]:.4f}")
            if len(losses) == steps:
                break
    return losses


def evaluate(model: nn.Module, dataset: TextDataset) -> float:
    """The mean cross-entropy of a byte, in nats."""
    criterion = nn.CrossEntropyLoss()
    total = 0.0
    model.eval()
    with torch.no_grad():
        for inputs, targets in DataLoader(dataset, batch_size=BATCH_SIZE):
            inputs, targets = inputs.to(device), targets.to(device)
            loss = criterion(model(inputs).view(-1, VOCABULARY), targets.view(-1))
            total += loss.item() * len(inputs)
    return total / len(dataset)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    library = read_library()
    torch.manual_seed(args.seed)
    model = GPT().to(device)
    train(model, TextDataset(library.training, TRAINING_ROWS, TRAINING_SEED), args.steps)
    evaluation = TextDataset(library.evaluation, EVALUATION_ROWS, EVALUATION_SEED)
    print(f"token_cross_entropy: {evaluate(model, evaluation):.4f}")


if __name__ == "__main__":
    main()
