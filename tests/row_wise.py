"""What the encoders do, as researchers' scripts do it: row by row and element by element."""

from collections.abc import Sequence

import torch
from torch import Tensor


def bits_to_tensor(bits: Sequence[str]) -> Tensor:
    rows = []
    for row in bits:
        rows.append(torch.tensor([int(bit) for bit in list(row)], dtype=torch.float32))
    return torch.stack(rows)


def tensor_to_bits(tensor: Tensor) -> list[str]:
    return ["".join(str(int(bit)) for bit in row.tolist()) for row in tensor]


def all_ngrams(n: int, characters: str) -> list[str]:
    labels = [""]
    for _ in range(n):
        labels = [label + character for label in labels for character in characters]
    return labels


def extract_ngrams(text: str, n: int, labels: list[str], padding: str = "") -> list[str]:
    text = padding * (n - 1) + text + padding * (n - 1)
    ngrams = [text[i : i + n] for i in range(len(text) - n + 1)]
    return [ngram for ngram in ngrams if ngram in labels]


def ngrams_to_tensor(
    rows: Sequence[Sequence[str]], n: int, labels: list[str], padding: str = ""
) -> Tensor:
    """``rows`` are tuples of fields."""
    encoded = []
    for fields in rows:
        ngrams = []
        for field in fields:
            ngrams += extract_ngrams(field, n, labels, padding)
        row = [1 if label in ngrams else 0 for label in labels]
        encoded.append(torch.tensor(row, dtype=torch.float32))
    return torch.stack(encoded)


def decode_ngrams(
    probabilities: Tensor, labels: list[str], threshold: float = 0.5
) -> list[list[str]]:
    decoded = []
    for row in probabilities:
        decoded.append([label for i, label in enumerate(labels) if row[i].item() > threshold])
    return decoded


def make_windows(
    series: Tensor, targets: Tensor, length: int, stride: int = 1
) -> tuple[Tensor, Tensor]:
    windows, ends = [], []
    for start in range(0, len(series) - length + 1, stride):
        windows.append(series[start : start + length])
        ends.append(targets[start + length - 1])
    return torch.stack(windows), torch.stack(ends)


def tokenize(
    sequences: Sequence[str], ids: dict[str, int], length: int, pad_id: int, unknown_id: int
) -> tuple[Tensor, Tensor]:
    rows, lengths = [], []
    for sequence in sequences:
        tokens = [ids.get(character, unknown_id) for character in sequence][:length]
        lengths.append(len(tokens))
        rows.append(torch.tensor(tokens + [pad_id] * (length - len(tokens))))
    return torch.stack(rows).to(torch.int64), torch.tensor(lengths)


def detokenize(tokens: Tensor, characters: dict[int, str], pad_id: int) -> list[str]:
    texts = []
    for row in tokens:
        text = ""
        for token in row:
            if token.item() == pad_id:
                break
            text += characters[int(token.item())]
        texts.append(text)
    return texts
