"""A loader that stands for another one and answers as it does."""

from typing import Any


class StandIn:
    """What a loop may ask its loader for, ``len``, ``dataset``, ``batch_size``, ``sampler`` and so
    on, is asked of ``loader``."""

    loader: Any

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not made yet, as in a copy under way
            raise AttributeError(name)
        return getattr(self.loader, name)
