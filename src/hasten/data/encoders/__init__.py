"""Text, bit strings and series as tensors, whole tables at a time. Needs numpy and torch only."""

from hasten.data.encoders.bits import bits_to_tensor, tensor_to_bits
from hasten.data.encoders.ngrams import NGrams
from hasten.data.encoders.sequences import Tokenizer, Tokens
from hasten.data.encoders.windows import WindowDataset, sliding_windows, window_ends

__all__ = [
    "NGrams",
    "Tokenizer",
    "Tokens",
    "WindowDataset",
    "bits_to_tensor",
    "sliding_windows",
    "tensor_to_bits",
    "window_ends",
]
