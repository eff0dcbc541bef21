"""Keeping a cache within its limit: the least recently used entries go first."""

import shutil
from pathlib import Path

from hasten.data.cache.folder import CacheFolder, Place
from hasten.host.files import file_clock_s

LARGEST_BYTES = 20_000_000_000
DISK_SHARE = 10
"""Unless another limit is named, a tenth of the disk, and never more than 20 GB."""


def default_limit(root: Path) -> int:
    """The disk is that of the nearest folder above that exists."""
    there = next((each for each in (root, *root.parents) if each.exists()), None)
    if there is None:
        return LARGEST_BYTES
    return min(LARGEST_BYTES, shutil.disk_usage(there).total // DISK_SHARE)


def make_room(folder: CacheFolder, bytes_needed: int, limit_bytes: int) -> list[Place]:
    """Under the lock to change, so that two writers cannot both take the same room. Returns what
    was removed."""
    places = folder.places()
    total = sum(place.bytes for place in places)
    removed = []
    for place in places:
        if total + bytes_needed <= limit_bytes:
            break
        folder.remove(place.path)
        removed.append(place)
        total -= place.bytes
    return removed


def remove_older(folder: CacheFolder, age_s: float) -> list[Place]:
    """Under the lock to change: what was not used for so long."""
    oldest_s = file_clock_s() - age_s
    removed = [place for place in folder.places() if place.used_s < oldest_s]
    for place in removed:
        folder.remove(place.path)
    return removed
