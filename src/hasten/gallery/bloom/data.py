"""Made-up persons with their Bloom filters, as a table.

Everything here is a function of its arguments: no global random generator is read or changed.
"""

import csv
import io
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

import numpy as np

from hasten.gallery.bloom.names import GIVEN_NAMES, SURNAMES, draw_names
from hasten.host.files import write_atomically

FILTER_BITS = 1024
HASHES = 10
LABELS = 26 * 26
"""The 2-grams of letters, 'aa', 'ab' ... 'zz': label 26 * first + second."""

TRAINING_SEED = 20_240
EVALUATION_SEED = 20_241
"""Of the persons only: a run's own seed changes the training, never the data."""

_KEY = b"a secret that the data holders share"
_FIRST_DAY = np.datetime64("1930-01-01")
_LAST_DAY = np.datetime64("2009-12-31")


@dataclass(frozen=True, kw_only=True)
class Persons:
    """A table, column by column."""

    given_name: list[str]
    surname: list[str]
    birthday: list[str]
    """DD/MM/YYYY."""
    bits: list[str]
    """The Bloom filter of the three fields, 1024 characters '0' or '1'."""


def make_persons(rows: int, seed: int) -> Persons:
    rng = np.random.default_rng(seed)
    given_names = draw_names(rng, GIVEN_NAMES, rows)
    surnames = draw_names(rng, SURNAMES, rows)
    birthdays = draw_birthdays(rng, rows)
    fields = zip(given_names, surnames, birthdays, strict=True)
    return Persons(
        given_name=given_names,
        surname=surnames,
        birthday=birthdays,
        bits=[make_filter(*person) for person in fields],
    )


def write_table(persons: Persons, path: Path) -> None:
    """As CSV with a header, one line for each person: what the holders of such data exchange."""
    text = io.StringIO()
    columns = vars(persons)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_atomically(path, text.getvalue().encode("ascii"))


def draw_birthdays(rng: np.random.Generator, rows: int) -> list[str]:
    days = rng.integers(0, int((_LAST_DAY - _FIRST_DAY).astype(int)) + 1, rows)
    dates = np.datetime_as_string(_FIRST_DAY + days.astype("timedelta64[D]")).tolist()
    return ["/".join(reversed(date.split("-"))) for date in dates]


def make_filter(given_name: str, surname: str, birthday: str) -> str:
    """The bit string of a person: the bits of all 2-grams, set in one filter."""
    bits = 0
    # Padding marks how a name begins and ends; all birthdays are equally long and need none.
    for field in (f"_{given_name}_", f"_{surname}_", birthday):
        for first, second in pairwise(field):
            bits |= _mask(first + second)
    return f"{bits:0{FILTER_BITS}b}"


@cache
def _mask(two_gram: str) -> int:
    # The first character of a bit string is the highest bit of the number.
    return sum(1 << (FILTER_BITS - 1 - position) for position in hash_positions(two_gram))


def hash_positions(two_gram: str) -> list[int]:
    """Where a filter is set for a 2-gram: one keyed hash, stepped through by double hashing."""
    digest = blake2b(two_gram.encode(), key=_KEY, digest_size=16).digest()
    start = int.from_bytes(digest[:8], "little")
    # An odd step shares no factor with 1024, so that the positions are all different.
    step = int.from_bytes(digest[8:], "little") | 1
    return [(start + i * step) % FILTER_BITS for i in range(HASHES)]
