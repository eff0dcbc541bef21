"""Datasets that are shown to give the same item each time, as columns."""

from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from hasten.data.frozen import Frozen


class CannotFreeze(Exception):  # noqa: N818
    """Why a dataset may not, or cannot, be read once and kept."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def freeze(
    loader: DataLoader[Any],
    *,
    most_bytes: int,
    limit_s: float = 600.0,
    tell: Callable[[int, int], None] | None = None,
) -> Frozen:
    """``tell`` is called with how many items have been read and how many there are to read."""
    raise CannotFreeze("nothing can be frozen yet")
