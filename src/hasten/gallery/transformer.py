"""The block that the gallery's transformers are built of."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Attention and a feed-forward network, each after a LayerNorm and around a residual."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.fused = True
        """Torch's fused attention, or, set to false, the formula of the papers, which stores every
        score."""
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_output = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU(approximate="tanh"),  # as in GPT-2
            nn.Linear(4 * width, width),
        )

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self._attend(self.attention_norm(hidden))
        added: Tensor = self.feed_forward(self.feed_forward_norm(hidden))
        return hidden + added

    def _attend(self, hidden: Tensor) -> Tensor:
        rows, length, width = hidden.shape
        split = (rows, length, 3, self.heads, width // self.heads)
        # Three tensors of rows, heads, length, width of a head.
        query, key, value = self.query_key_value(hidden).view(split).permute(2, 0, 3, 1, 4)
        if self.fused:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        else:
            mixed = attend_by_hand(query, key, value, causal=self.causal)
        output: Tensor = self.attention_output(mixed.transpose(1, 2).reshape(rows, length, width))
        return output


def attend_by_hand(query: Tensor, key: Tensor, value: Tensor, *, causal: bool) -> Tensor:
    """Softmax attention, written out as in the papers: memory grows with the length squared."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if causal:
        length = scores.size(-1)
        later = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    return scores.softmax(dim=-1) @ value
