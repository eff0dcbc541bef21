"""Places in source files, as they are shown."""

from pathlib import Path


def shown(filename: str) -> str:
    """Relative to the working folder where the file is inside of it."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
