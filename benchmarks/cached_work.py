"""What the cache is timed on: the gallery's own expensive functions of data."""

from typing import Any

import numpy as np

from hasten.data import DatasetCache, Strings, cached
from hasten.gallery.microbiome.data import TRAINING_SEED, Samples, make_samples
from hasten.gallery.microbiome.task import SIZES
from hasten.gallery.microbiome.tree import Floats
from hasten.gallery.microbiome.unifrac import unifrac_distances


def bloom_table(rows: int, seed: int) -> dict[str, Strings]:
    """The table of persons with their Bloom filters, column by column."""
    from hasten.gallery.bloom.data import make_persons

    persons = make_persons(rows, seed)
    return {
        "given_name": Strings.of(persons.given_name),
        "surname": Strings.of(persons.surname),
        "birthday": Strings.of(persons.birthday),
        "bits": Strings.of(persons.bits),
    }


def ask_for_bloom(cache: DatasetCache, scale: float) -> Any:
    rows = int(100_000 * scale)
    return lambda: cached(bloom_table, cache=cache)(rows, 20_240)


def microbiome_samples(rows: int) -> Samples:
    """As many as asked, else as in gallery:microbiome@full."""
    full = SIZES["full"]
    return make_samples(rows, full.sequences, full.length, full.tips, TRAINING_SEED)


def microbiome_distances(rows: int) -> Floats:
    """UniFrac of all pairs of samples, as a start of the workload computes it."""
    samples = microbiome_samples(rows)
    return unifrac_distances(samples.table, samples.tree, weighted=True, normalized=True)


def ask_for_microbiome(cache: DatasetCache, scale: float) -> Any:
    rows = int(SIZES["full"].training_rows * scale)
    return lambda: cached(microbiome_distances, cache=cache)(rows)


def ask_for_unifrac(cache: DatasetCache, scale: float) -> Any:
    """The same as a function of the table of counts, 4 MB, and of the tree, which are made first:
    all of it is digested whenever it is asked."""
    samples = microbiome_samples(int(SIZES["full"].training_rows * scale))
    distances = cached(unifrac_distances, cache=cache)
    return lambda: distances(samples.table, samples.tree, weighted=True, normalized=True)


WORK = {
    "bloom": ask_for_bloom,
    "microbiome": ask_for_microbiome,
    "unifrac": ask_for_unifrac,
}


def checksum(result: Any) -> float:
    """Reads all of it."""
    if isinstance(result, dict):
        return sum(checksum(each) for each in result.values())
    if isinstance(result, Strings):
        return float(result.data.sum(dtype=np.int64)) + float(result.offsets.sum())
    return float(np.asarray(result).sum())
