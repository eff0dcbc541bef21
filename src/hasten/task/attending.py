"""Where a model asks torch for attention: answered by others, and watched."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


@contextmanager
def attending_by(function: Callable[..., Tensor]) -> Iterator[None]:
    """Whoever asks torch for attention is answered by ``function``; for the whole process. Not
    seen is who took torch's function by its name when it was imported."""
    before = nn.functional.scaled_dot_product_attention
    nn.functional.scaled_dot_product_attention = function
    try:
        yield
    finally:
        nn.functional.scaled_dot_product_attention = before


class MaskWatch:
    """Whether attention was given a mask; None while nobody asked for attention."""

    def __init__(self) -> None:
        self._attend = nn.functional.scaled_dot_product_attention
        self.has_seen: bool | None = None

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        *rest: Any,
        **more: Any,
    ) -> Tensor:
        self.has_seen = bool(self.has_seen) or attn_mask is not None
        return self._attend(query, key, value, attn_mask, *rest, **more)
