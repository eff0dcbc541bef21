"""Where programs of this user keep what can be made again."""

import os
from pathlib import Path

from hasten.errors import HastenError


def cache_root() -> Path:
    """``hasten`` in ``XDG_CACHE_HOME``, or in ``~/.cache``; it need not exist.

    A relative ``XDG_CACHE_HOME`` is ignored, as its specification says.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    if Path(named).is_absolute():
        return Path(named) / "hasten"
    try:
        return Path.home() / ".cache" / "hasten"
    except RuntimeError as error:
        raise HastenError(
            "This user has no home folder, so there is no place for a cache.",
            fix="Set HOME or XDG_CACHE_HOME, or name a folder.",
        ) from error
