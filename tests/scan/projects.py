"""Small projects on the disk."""

from pathlib import Path

HOT = """\
import torch

def train(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        total += loss.item()
    return total
"""
"""With one finding, HST201 in line 8."""
LINE = 8


def write(folder: Path, **files: str | bytes) -> Path:
    """Modules by their names; "__" stands for a folder's end."""
    for name, content in files.items():
        put(folder / f"{name.replace('__', '/')}.py", content)
    return folder


def put(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
