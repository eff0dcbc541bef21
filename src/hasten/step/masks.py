"""Attention masks that a model holds, read once, so that the kernel can be told what they mean."""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

Meaning = Literal["nothing", "causal", "other"]
"""What a mask hides: nothing, what comes later, or something that only the mask can say."""


class MaskReader:
    """Calls torch's attention with a mask in words where a mask of the model's own can be said so.

    A mask is read once, which waits for the device, and again only when it is written to. Masks
    that are made anew in each forward pass would have to be read each time, and are left alone; so
    are those that are trained. A mask that is written to through its ``data``, as ``mask.data[0] =
    1`` does, is not noticed: torch does not count such a write.
    """

    def __init__(self, model: nn.Module) -> None:
        held = [*model.buffers(), *_tensor_attributes(model)]
        self._held = {id(tensor): tensor for tensor in held}
        self._read: dict[tuple[Any, ...], Meaning] = {}

    @property
    def simplified(self) -> int:
        return sum(meaning != "other" for meaning in self._read.values())

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **more: Any,
    ) -> Tensor:
        if attn_mask is not None and not is_causal and not torch.compiler.is_compiling():
            meaning = self._meaning(attn_mask)
            if meaning != "other":
                attn_mask, is_causal = None, meaning == "causal"
        return scaled_dot_product_attention(
            query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, **more
        )

    def _meaning(self, mask: Tensor) -> Meaning:
        base = mask if mask._base is None else mask._base
        if id(base) not in self._held or mask.requires_grad:
            return "other"
        place = (id(base), base._version, mask.shape, mask.stride(), mask.storage_offset())
        if place not in self._read:
            self._read[place] = read_mask(mask)
        return self._read[place]


def read_mask(mask: Tensor) -> Meaning:
    """What a mask of torch's attention hides: True, or 0 in a float mask, is what may be seen."""
    if mask.dtype == torch.bool:
        seen = mask
    else:
        hidden = mask == float("-inf")
        if not bool(((mask == 0) | hidden).all()):
            return "other"  # a bias, such as of relative positions
        seen = ~hidden
    if bool(seen.all()):
        return "nothing"
    rows, columns = seen.shape[-2:]
    causal = torch.ones(rows, columns, dtype=torch.bool, device=mask.device).tril()
    # torch's causal is counted from the upper left, which only a square shows to be meant.
    return "causal" if rows == columns and bool((seen == causal).all()) else "other"


def _tensor_attributes(model: nn.Module) -> list[Tensor]:
    return [
        value
        for module in model.modules()
        for value in vars(module).values()
        if isinstance(value, Tensor)
    ]
