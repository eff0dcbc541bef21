"""Places in source files: whose they are, and how they are shown."""

from pathlib import Path

HASTEN = Path(__file__).parents[1]


def shown(filename: str) -> str:
    """Relative to the working folder where the file is inside of it."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def is_hastens(path: Path) -> bool:
    """But for the gallery, whose tasks are as a user would write them."""
    return path.is_relative_to(HASTEN) and not path.is_relative_to(HASTEN / "gallery")
