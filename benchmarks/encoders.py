"""How much faster are the encoders than encoding row by row, and how much memory do they take?

Each encoder and its row-wise twin, the one that the tests hold it to, get the same table in pairs
within one process, in random order within each pair, and what they give is compared in every pair.
A ratio is of one pair; of all pairs the median is told with the smallest and the largest, and
the median must reach the bar. Where a twin would take minutes it gets the first rows only, as many
as ``row_wise_rows`` says, and its time is scaled to the table: its rows cost alike.

``windows`` compares making all windows, of which the encoder copies none. ``windows_read``, which
has no bar, reads all of them once in shuffled batches: gathered, and item by item through
a DataLoader's default collate function.

``peak_bytes`` is the resident memory of a fresh process at its highest while it encodes once (the
kernel's VmHWM, reset before), over what was resident before; what it made, of which
``tensor_bytes`` are tensors' own, is in it. Only Linux tells it.
"""

import argparse
import gc
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data import BatchSampler, default_collate

from hasten.data.encoders import (
    NGrams,
    Tokenizer,
    WindowDataset,
    bits_to_tensor,
    sliding_windows,
    tensor_to_bits,
    window_ends,
)
from results_file import RESULTS, ROOT, write_results

sys.path.append(str(ROOT / "tests"))
import row_wise

BAR = 40
BIT_WIDTH = 1024
MOMENTS, CHANNELS = 200, 3
BASES = 150
BATCH = 64
STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True, kw_only=True)
class Case:
    encode: Callable[[], Any]
    row_wise: Callable[[int], Any]
    """Of so many first rows."""
    row_wise_rows: int | None = None
    """As many at most; None for all."""
    bar: float | None = BAR


def main() -> None:
    arguments = _parse()
    order = random.Random(arguments.seed)
    figures = {}
    for name, make in CASES.items():
        if name in arguments.only or not arguments.only:
            figures[name] = _compare(make, arguments.rows, arguments.pairs, order)
            print(name, {key: value for key, value in figures[name].items() if key != "pairs"})
    failed = [name for name, each in figures.items() if not each["holds"]]
    document = {
        "rows": arguments.rows,
        "torch_threads": torch.get_num_threads(),
        "bar": BAR,
        "failed": failed,
        "encoders": figures,
    }
    write_results("encoders", document, commit=arguments.commit, folder=arguments.out)
    if failed:
        sys.exit(f"below {BAR}x, or not equal: {', '.join(failed)}")


def _compare(
    make: Callable[[int], Case], rows: int, pairs: int, order: random.Random
) -> dict[str, Any]:
    case = make(rows)
    some = min(rows, case.row_wise_rows or rows)
    runs = {"encoder": case.encode, "row_wise": lambda: case.row_wise(some)}
    done = []
    for _ in range(pairs):
        timed = {name: _time(runs[name]) for name in order.sample(list(runs), 2)}
        (encoder_s, found), (row_wise_s, expected) = (timed[name] for name in runs)
        done.append(
            {
                "first": next(iter(timed)),
                "encoder_s": encoder_s,
                "row_wise_s": row_wise_s,
                "ratio": row_wise_s * rows / some / encoder_s,
                "equal": _equal(found, expected, some),
            }
        )
        del timed, found, expected
    ratios = [pair["ratio"] for pair in done]
    equal = all(pair["equal"] for pair in done)
    return {
        "bar": case.bar,
        "row_wise_rows": some,
        "equal": equal,
        "ratio": {
            "median": round(statistics.median(ratios), 1),
            "smallest": round(min(ratios), 1),
            "largest": round(max(ratios), 1),
        },
        "holds": equal and (case.bar is None or statistics.median(ratios) >= case.bar),
        **_memory_of(make.__name__, rows),
        "pairs": done,
    }


def _time(encode: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    start = time.perf_counter()
    output = encode()
    return time.perf_counter() - start, output


def _memory_of(name: str, rows: int) -> dict[str, int]:
    with multiprocessing.get_context("spawn").Pool(1) as fresh:
        return fresh.apply(_encode_once, (name, rows))


def _encode_once(name: str, rows: int) -> dict[str, int]:
    case = CASES[name](rows)
    if not CLEAR_REFS.exists():
        return {}
    gc.collect()
    before = _resident("VmRSS")
    CLEAR_REFS.write_text("5")  # the peak is from now on
    output = case.encode()
    peak = _resident("VmHWM") - before
    tensors = [each for each in _leaves(output) if _is_tensor(each)]
    made = sum(each.untyped_storage().nbytes() for each in tensors)
    return {"peak_bytes": peak, "tensor_bytes": made}


def _resident(name: str) -> int:
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def _leaves(output: Any) -> list[Any]:
    return [output] if isinstance(output, list) else pytree.tree_leaves(output)


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, Tensor)


def _equal(found: Any, expected: Any, rows: int) -> bool:
    """Whether the first rows are the same: of tensors, bit for bit and by type."""
    return all(
        torch.equal(one[:rows], other) and one.dtype == other.dtype
        if _is_tensor(one)
        else one[:rows] == other
        for one, other in zip(_leaves(found), _leaves(expected), strict=True)
    )


def _bit_strings(rows: int) -> list[str]:
    digits = np.random.default_rng(0).integers(0, 2, (rows, BIT_WIDTH), np.uint8) + ord("0")
    return [row.tobytes().decode() for row in digits]


def _words(rows: int, shortest: int, longest: int, letters: str, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(shortest, longest + 1, rows)
    text = "".join(rng.choice(list(letters), int(lengths.sum())))
    ends = np.cumsum(lengths)
    return [text[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _names(rows: int) -> tuple[list[str], list[str]]:
    """Given names and surnames; some characters are not in the alphabet."""
    letters = "abcdefghijklmnopqrstuvwxyzaeioureins-"
    return _words(rows, 2, 10, letters, 1), _words(rows, 3, 12, letters, 2)


def bits(rows: int) -> Case:
    strings = _bit_strings(rows)
    return Case(
        encode=lambda: bits_to_tensor(strings),
        row_wise=lambda some: row_wise.bits_to_tensor(strings[:some]),
    )


def bits_back(rows: int) -> Case:
    tensor = bits_to_tensor(_bit_strings(rows))
    return Case(
        encode=lambda: tensor_to_bits(tensor),
        row_wise=lambda some: row_wise.tensor_to_bits(tensor[:some]),
        row_wise_rows=20_000,
    )


def ngrams(rows: int) -> Case:
    given_names, surnames = _names(rows)
    persons = list(zip(given_names, surnames, strict=True))
    two_grams = NGrams()
    return Case(
        encode=lambda: two_grams.encode(given_names, surnames),
        row_wise=lambda some: row_wise.ngrams_to_tensor(persons[:some], 2, two_grams.labels),
    )


def ngrams_back(rows: int) -> Case:
    """Probabilities of which some twenty in 676 are over the threshold."""
    two_grams = NGrams()
    random_numbers = torch.rand(rows, len(two_grams), generator=torch.Generator().manual_seed(0))
    probabilities = random_numbers**20
    return Case(
        encode=lambda: two_grams.decode(probabilities),
        row_wise=lambda some: row_wise.decode_ngrams(probabilities[:some], two_grams.labels),
        row_wise_rows=10_000,
    )


def _drive(rows: int) -> tuple[Tensor, Tensor]:
    """A series of as many windows, and a target for each of its moments."""
    random_numbers = torch.Generator().manual_seed(0)
    series = torch.randn(rows + MOMENTS - 1, CHANNELS, generator=random_numbers)
    return series, torch.randn(len(series), 1, generator=random_numbers)


def windows(rows: int) -> Case:
    series, targets = _drive(rows)
    return Case(
        encode=lambda: (
            sliding_windows(series, MOMENTS),
            targets[window_ends(len(series), MOMENTS)],
        ),
        row_wise=lambda some: row_wise.make_windows(series, targets, MOMENTS),
    )


def windows_read(rows: int) -> Case:
    series, targets = _drive(rows)
    data = WindowDataset([series], [targets], length=MOMENTS)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(0)).tolist()
    batches = list(BatchSampler(order, BATCH, drop_last=False))

    def read_all(read: Callable[[Sequence[int]], Any]) -> tuple[Tensor, ...]:
        """What stands at the end of each window, and its target: the windows are not kept."""
        ends = [(inputs[:, -1], labels) for inputs, labels in map(read, batches)]
        return tuple(torch.cat(each) for each in zip(*ends, strict=True))

    return Case(
        encode=lambda: read_all(data.gather),
        row_wise=lambda some: read_all(lambda batch: default_collate([data[i] for i in batch])),
        bar=None,
    )


def _bases(rows: int) -> list[str]:
    return _words(rows, BASES - 10, BASES, "ACGT" * 20 + "N", 3)


def tokens(rows: int) -> Case:
    sequences = _bases(rows)
    tokenizer = Tokenizer("ACGT", unknown_id=5)
    ids = {"A": 1, "C": 2, "G": 3, "T": 4}
    return Case(
        encode=lambda: tuple(tokenizer.encode(sequences, BASES)),
        row_wise=lambda some: row_wise.tokenize(sequences[:some], ids, BASES, 0, 5),
    )


def tokens_back(rows: int) -> Case:
    tokenizer = Tokenizer("ACGT", unknown_id=5)
    ids = tokenizer.encode(_bases(rows), BASES).ids
    characters = {1: "A", 2: "C", 3: "G", 4: "T", 5: "?"}
    return Case(
        encode=lambda: tokenizer.decode(ids),
        row_wise=lambda some: row_wise.detokenize(ids[:some], characters, 0),
        row_wise_rows=10_000,
    )


CASES = {
    each.__name__: each
    for each in (bits, bits_back, ngrams, ngrams_back, windows, windows_read, tokens, tokens_back)
}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=())
    parser.add_argument("--seed", type=int, default=0, help="of the order within pairs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
