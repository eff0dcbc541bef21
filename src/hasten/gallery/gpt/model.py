"""GPT-2: token and position embeddings, causal blocks, and a head that shares the embedding."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hasten.gallery.transformer import Block

_SPREAD = 0.02
"""Of the first weights, as in GPT-2: the head shares the embedding, whose usual spread of 1 would
begin at a loss in the hundreds."""


class GPT(nn.Module):
    """The logits of the token that follows each place."""

    def __init__(
        self,
        vocabulary: int = 50_257,
        length: int = 1024,
        width: int = 768,
        heads: int = 12,
        blocks: int = 12,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, causal=True) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(_initialize)
        for name, weight in self.named_parameters():
            # The blocks' outputs add up: smaller ones keep the sum's spread.
            if name.endswith(("attention_output.weight", "feed_forward.2.weight")):
                nn.init.normal_(weight, std=_SPREAD / math.sqrt(2 * blocks))

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.size(1), device=tokens.device)
        hidden = self.blocks(self.tokens(tokens) + self.positions(places))
        logits: Tensor = self.head(self.norm(hidden))
        return logits


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=_SPREAD)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def token_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over all tokens of all rows."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
