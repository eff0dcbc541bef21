"""What the cache is timed on: the gallery's own expensive functions of data."""

from typing import Any

import numpy as np

from hasten.data import DatasetCache, Strings, cached


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


def ask_for_microbiome(cache: DatasetCache, scale: float) -> Any:
    """Weighted UniFrac of samples as sparse as those of a sequencer; the inputs are made first."""
    from hasten.gallery.microbiome.tree import grow_tree
    from hasten.gallery.microbiome.unifrac import unifrac_distances

    samples, tips = int(1024 * scale), int(2048 * scale)
    rng = np.random.default_rng(0)
    tree = grow_tree(tips, 1.0, rng)
    table = rng.poisson(rng.gamma(0.1, 30.0, (samples, tips))) + 1
    distances = cached(unifrac_distances, cache=cache)
    return lambda: distances(table, tree, weighted=True)


WORK = {"bloom": ask_for_bloom, "microbiome": ask_for_microbiome}


def checksum(result: Any) -> float:
    """Reads all of it."""
    if isinstance(result, dict):
        return sum(checksum(each) for each in result.values())
    if isinstance(result, Strings):
        return float(result.data.sum(dtype=np.int64)) + float(result.offsets.sum())
    return float(np.asarray(result).sum())
