"""The source files of the user's own that a process has imported, told apart by their content."""

import hashlib
import site
import sys
import sysconfig
from pathlib import Path

HASTEN = Path(__file__).resolve().parents[1]
INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib")


def own_sources() -> dict[str, str]:
    """Digests by path. What is installed is known by its version, and so is Hasten itself."""
    others = _installed()
    found = {}
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        path = Path(name).resolve() if name else None
        if path is None or path.suffix != ".py" or any(map(path.is_relative_to, others)):
            continue
        try:
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            continue  # it was removed since it was imported
    return found


def _installed() -> list[Path]:
    folders = [sysconfig.get_path(each) for each in INSTALLED]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    return [HASTEN, *(Path(each).resolve() for each in folders)]
