"""Which checkpoints are no longer needed.

One counts when it was healthy and its files are verified now, hash by hash: nothing is removed for
the sake of another that could not be read.
"""

from collections.abc import Sequence
from pathlib import Path

from hasten.checkpoint.folders import Folder, OtherFormatError, find_damage, read_manifest
from hasten.errors import HastenError


def find_surplus(newest_first: Sequence[Folder], keep: int, written: Path) -> list[Path]:
    """All but the newest ``keep`` that count and the newest that does not.

    The one just ``written`` stays, and its files are not read again. Partial ones are left to
    whoever tidies up, those of another version to that.
    """
    surplus = []
    counted = 0
    has_sick = False
    for folder in newest_first:
        if not _is_ours(folder):
            continue
        is_written = folder.path == written
        if _counts(folder, is_hashed=is_written or counted >= keep):
            counted += 1
            is_kept = counted <= keep
        else:
            is_kept = not has_sick
            has_sick = True
        if not is_kept and not is_written:
            surplus.append(folder.path)
    return surplus


def _is_ours(folder: Folder) -> bool:
    try:
        read_manifest(folder)
    except (OtherFormatError, FileNotFoundError):
        return False
    except HastenError:
        return True  # broken
    return True


def _counts(folder: Folder, *, is_hashed: bool) -> bool:
    """``is_hashed``: no need to read its files, since they were just written or are to go."""
    try:
        manifest = read_manifest(folder)
    except HastenError:
        return False
    return manifest.healthy and (is_hashed or not find_damage(folder.path, manifest))
