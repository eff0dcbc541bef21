"""Text as numbers and back: the 256 bytes, and above them the most frequent pieces of a text.

A piece is a word with the space before it, a run of other characters, or white space, as GPT-2 cuts
its text. Unlike byte pairs, pieces are not built up from smaller ones: what is not known as a whole
is spelt in bytes. That takes a second for several MB, and loses nothing.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.integer]
BYTES = 256
PIECE = re.compile(rb" ?\w+| ?[^\s\w]+|\s+(?!\S)|\s+")
"""Every byte is in one. White space leaves its last space to the word behind it."""


class Vocabulary:
    def __init__(self, pieces: Sequence[bytes] = ()) -> None:
        """``pieces`` have the numbers from 256 on."""
        self._words = [bytes([byte]) for byte in range(BYTES)] + list(pieces)
        self._numbers = {word: [number] for number, word in enumerate(self._words)}

    def __len__(self) -> int:
        return len(self._words)

    def encode(self, text: bytes) -> Tokens:
        if len(self) == BYTES:
            return np.frombuffer(text, np.uint8)
        tokens: list[int] = []
        for piece in PIECE.findall(text):
            tokens += self._numbers.get(piece, piece)  # bytes are numbers already
        return np.array(tokens, np.int32)

    def decode(self, tokens: npt.ArrayLike) -> bytes:
        return b"".join(self._words[token] for token in np.asarray(tokens).tolist())


def learn_vocabulary(text: bytes, size: int) -> Vocabulary:
    """Of ``size`` numbers at most: fewer where the text has fewer different pieces."""
    if size == BYTES:
        return Vocabulary()
    counts = Counter(piece for piece in PIECE.findall(text) if len(piece) > 1)
    # Of equally frequent pieces the first in the alphabet, so that nothing hangs on their order.
    ranked = sorted(counts, key=lambda piece: (-counts[piece], piece))
    return Vocabulary(ranked[: size - BYTES])
