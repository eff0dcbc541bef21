"""Places in source files, as they are shown, and whose they are."""

from pathlib import Path

_OURS = Path(__file__).parents[1]


def shown(filename: str) -> str:
    """Relative to the working folder where the file is inside of it."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def is_ours(filename: str) -> bool:
    """Of Hasten, but for the gallery, whose tasks are as a user would write them."""
    path = Path(filename)
    return path.is_relative_to(_OURS) and not path.is_relative_to(_OURS / "gallery")
