"""Which files there are, and what they say."""

import io
import tokenize
from collections.abc import Sequence
from pathlib import Path

from hasten.errors import HastenError
from hasten.scan.vocabulary import words

LEFT_OUT = words(
    ".git .hg .svn .venv venv .tox .nox .mypy_cache .pytest_cache .ruff_cache __pycache__"
    " node_modules build dist site-packages .eggs"
)


def python_files(paths: Sequence[Path]) -> list[Path]:
    """Under folders all but what tools make; a file that is named is taken as it is."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            for each in _walk(path):
                found[each] = None
        elif path.exists():
            found[path] = None
        else:
            raise HastenError(f"{path} is not there.", fix="Give files or folders that are.")
    return list(found)


def _walk(folder: Path) -> list[Path]:
    found: list[Path] = []
    for each in sorted(folder.iterdir()):
        if each.is_dir():
            if each.name not in LEFT_OUT and not each.is_symlink():
                found += _walk(each)
        elif each.suffix == ".py":
            found.append(each)
    return found


def read_text(path: Path) -> tuple[str | None, str]:
    """The text, or why there is none."""
    try:
        content = path.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return content.decode(encoding), ""
    except OSError as error:
        return None, error.strerror or str(error)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        return None, f"its encoding is not known: {error}"
