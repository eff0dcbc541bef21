"""Where Hasten keeps files between runs that it can make again."""

import os
from pathlib import Path


def cache_root() -> Path:
    """``$XDG_CACHE_HOME/hasten``, or ``~/.cache/hasten`` where that is unset or not absolute."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "hasten"
