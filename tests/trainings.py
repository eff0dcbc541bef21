"""Five tiny trainings that between them have all that a technique may trip over.

Each has a loader with a ragged last batch, a clip that bites, and AdamW. Seeded: two of the same
name are twins.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from hasten.measure.numerics import switch_dropout_off
from hasten.task.pipeline import Pipeline

ROWS, BATCH = 22, 6
"""6, 6, 6 and 4 rows: a last batch that is a partial one."""
LENGTH, WIDTH, HEADS, WORDS = 5, 8, 2, 11
PADDING = 0
CLIP = 0.02
"""Below the norm of every gradient here."""


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 16), nn.GELU()
        )
        self.head = nn.Linear(16, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.layers(inputs))


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + self.layers(inputs)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.blocks = nn.Sequential(Residual(4), Residual(4))
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(4, 3)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.drop(self.blocks(self.stem(images)).mean((2, 3))))


class Recurrent(nn.Module):
    """Hands its state out, and begins each batch with the one that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, WIDTH, num_layers=2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        outputs, state = self.lstm(inputs, state)
        return self.head(outputs[:, -1]), state


class Block(nn.Module):
    """Of a transformer; its mask is a buffer, so that attention has something to read."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.into = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH))
        self.drop = nn.Dropout(0.1)
        seen = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        self.register_buffer("seen", seen, persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        split = self.into(self.norm(inputs)).unflatten(-1, (3, HEADS, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4)
        met = F.scaled_dot_product_attention(query, key, value, attn_mask=self.seen)
        inputs = inputs + self.drop(self.out(met.transpose(1, 2).flatten(2)))
        return inputs + self.wide(inputs)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(6, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.into(inputs)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden.mean(1))


class LanguageModel(nn.Module):
    """Its embedding is its head too: one weight with two gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words: Tensor) -> Tensor:
        hidden = self.embedding(words)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


def token_loss(model: nn.Module, batch: Any) -> Tensor:
    """A mean over the words that are there; rows of unequal length are padded."""
    words, following = batch
    return F.cross_entropy(model(words).flatten(0, 1), following.flatten(), ignore_index=PADDING)


def count_tokens(batch: Any) -> int:
    return int((batch[1] != PADDING).sum())


def loss_and_state(model: nn.Module, batch: Any, state: Any) -> tuple[Tensor, Any]:
    logits, state = model(batch[0], state)
    return F.cross_entropy(logits, batch[1]), state


def zero_state(batch: Any) -> tuple[Tensor, Tensor]:
    rows = len(batch[0])
    return torch.zeros(2, rows, WIDTH), torch.zeros(2, rows, WIDTH)


def _numbers(*shape: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(ROWS, *shape, generator=generator)
    return inputs, torch.randint(3, (ROWS,), generator=generator)


def _sentences() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(8)
    text = torch.randint(1, WORDS, (ROWS, LENGTH + 1), generator=generator)
    lengths = torch.randint(2, LENGTH + 1, (ROWS, 1), generator=generator)
    following = text[:, 1:].masked_fill(torch.arange(LENGTH) >= lengths, PADDING)
    return text[:, :-1].contiguous(), following


MODELS: dict[str, Callable[[], nn.Module]] = {
    "perceptron": Perceptron,
    "convolutions": Convolutions,
    "recurrent": Recurrent,
    "transformer": Transformer,
    "language": LanguageModel,
}
SHAPES = {
    "perceptron": (6,),
    "convolutions": (3, 6, 6),
    "recurrent": (LENGTH, 6),
    "transformer": (LENGTH, 6),
}
NAMES = tuple(MODELS)


def make_training(name: str, *, dropout: bool = True, device: str = "cpu") -> Pipeline:
    torch.manual_seed(11)
    model = MODELS[name]().to(device)
    if not dropout:
        switch_dropout_off(model)
    data = _sentences() if name == "language" else _numbers(*SHAPES[name])
    loader = DataLoader(TensorDataset(*data), batch_size=BATCH, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    pipeline = Pipeline.from_loop(model, loader, optimizer, F.cross_entropy, clip_norm=CLIP)
    if name == "language":
        pipeline.forward, pipeline.count = token_loss, count_tokens
    if name == "recurrent":
        pipeline.forward, pipeline.initial_state = loss_and_state, zero_state
        pipeline.state_resets = "batch"
    return pipeline
