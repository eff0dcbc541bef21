"""Masks in words: read right or left alone, and attention stays the same."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hasten.step.masks import MaskReader, read_mask

INF = float("-inf")
SIZE = 5


def causal(rows: int = SIZE, columns: int = SIZE) -> Tensor:
    return torch.ones(rows, columns, dtype=torch.bool).tril()


def as_floats(seen: Tensor) -> Tensor:
    return torch.zeros(seen.shape).masked_fill(~seen, INF)


def one_more(seen: Tensor) -> Tensor:
    seen[0, 1] = True
    return seen


@pytest.mark.parametrize(
    ("mask", "meaning"),
    [
        (causal(), "causal"),
        (as_floats(causal()), "causal"),
        (causal()[None, None], "causal"),
        (causal().expand(3, 2, SIZE, SIZE), "causal"),
        (causal(1, 1), "nothing"),
        (torch.ones(SIZE, SIZE, dtype=torch.bool), "nothing"),
        (torch.ones(2, 1, 3, 7, dtype=torch.bool), "nothing"),
        (torch.zeros(SIZE, SIZE), "nothing"),
        (-torch.zeros(SIZE, SIZE), "nothing"),
        (torch.zeros(SIZE, SIZE, dtype=torch.bfloat16), "nothing"),
        (torch.zeros(SIZE, SIZE, dtype=torch.bool), "other"),
        (causal().T, "other"),
        (~causal(), "other"),
        (one_more(causal()), "other"),
        (causal() & ~torch.eye(SIZE, dtype=torch.bool), "other"),
        (causal(SIZE, SIZE + 2), "other"),
        (causal(SIZE + 2, SIZE), "other"),
        (torch.ones(SIZE, SIZE, dtype=torch.bool).tril(1), "other"),
        (torch.randn(SIZE, SIZE), "other"),
        (as_floats(causal()) + 0.5, "other"),
        (torch.zeros(SIZE, SIZE).masked_fill(~causal(), -1e9), "other"),
        (torch.zeros(SIZE, SIZE).masked_fill(~causal(), float("nan")), "other"),
        (torch.zeros(SIZE, SIZE).masked_fill(~causal(), float("inf")), "other"),
        (torch.stack([causal(), causal().T]), "other"),
    ],
)
def test_a_mask_is_read_for_what_it_hides(mask: Tensor, meaning: str) -> None:
    assert read_mask(mask) == meaning


class Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("large", causal(9, 9), persistent=False)
        self.register_buffer("bias", as_floats(causal()))
        self.inner = nn.Module()
        self.inner.attribute = causal()


def inputs(length: int = SIZE) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 2, 2, length, 4, generator=generator)
    return query, key, value


def spy(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, bool]]:
    """For each call whether it had a mask, and whether it was told to be causal."""
    calls: list[tuple[bool, bool]] = []

    def attention(
        *args: Tensor, attn_mask: Tensor | None, is_causal: bool, **more: object
    ) -> Tensor:
        calls.append((attn_mask is not None, is_causal))
        return F.scaled_dot_product_attention(
            *args, attn_mask=attn_mask, is_causal=is_causal, **more
        )

    monkeypatch.setattr("hasten.step.masks.scaled_dot_product_attention", attention)
    return calls


def test_masks_that_the_model_holds_are_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, model = spy(monkeypatch), Holder()
    reader = MaskReader(model)
    masks = [
        model.bias,
        model.inner.attribute,
        model.large[:SIZE, :SIZE],
        model.large[None, None, 2 : 2 + SIZE, 2 : 2 + SIZE],
    ]
    for mask in masks:
        found = reader.attend(*inputs(), attn_mask=mask)
        plain = F.scaled_dot_product_attention(*inputs(), attn_mask=mask)
        assert torch.allclose(found, plain, atol=1e-6)
    assert calls == [(False, True)] * 4
    assert reader.simplified == 4


def test_a_slice_that_is_not_causal_keeps_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, model = spy(monkeypatch), Holder()
    reader = MaskReader(model)
    lower = model.large[4:, :SIZE]  # of a causal mask, but shifted: it hides nothing
    upper = model.large[:SIZE, 1 : 1 + SIZE]  # hides the diagonal
    for mask in (lower, upper):
        found = reader.attend(*inputs(), attn_mask=mask)
        plain = F.scaled_dot_product_attention(*inputs(), attn_mask=mask)
        assert torch.allclose(found, plain, atol=1e-6, equal_nan=True)
    assert calls == [(False, False), (True, False)]


def test_masks_that_are_made_in_the_forward_pass_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = spy(monkeypatch)
    reader = MaskReader(Holder())
    found = reader.attend(*inputs(), attn_mask=causal())
    assert torch.equal(found, F.scaled_dot_product_attention(*inputs(), attn_mask=causal()))
    assert calls == [(True, False)]
    assert reader.simplified == 0


def test_a_mask_that_is_trained_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, model = spy(monkeypatch), Holder()
    model.inner.attribute = torch.zeros(SIZE, SIZE)
    reader = MaskReader(model)
    reader.attend(*inputs(), attn_mask=model.inner.attribute)
    model.inner.attribute.requires_grad_()
    for mask in (model.inner.attribute, model.inner.attribute[None, None]):
        reader.attend(*inputs(), attn_mask=mask).sum().backward()
    assert calls == [(False, False), (True, False), (True, False)]
    assert model.inner.attribute.grad is not None


def test_a_mask_that_is_written_to_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, model = spy(monkeypatch), Holder()
    reader = MaskReader(model)
    mask = model.inner.attribute
    reader.attend(*inputs(), attn_mask=mask)
    mask[0, 1] = True
    found = reader.attend(*inputs(), attn_mask=mask)
    assert torch.equal(found, F.scaled_dot_product_attention(*inputs(), attn_mask=mask))
    assert calls == [(False, True), (True, False)]


def test_what_else_is_said_of_a_call_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = spy(monkeypatch)
    reader = MaskReader(Holder())
    query, key, value = inputs()
    plain = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.3)
    assert torch.equal(reader.attend(query, key, value, is_causal=True, scale=0.3), plain)
    plain = F.scaled_dot_product_attention(query, key, value)
    assert torch.equal(reader.attend(query, key, value, None, 0.0, False), plain)
    torch.manual_seed(0)
    dropped = F.scaled_dot_product_attention(query, key, value, dropout_p=0.5, is_causal=True)
    torch.manual_seed(0)
    mask = reader._held[id(reader_mask(reader))]
    assert torch.equal(reader.attend(query, key, value, mask, 0.5), dropped)
    assert calls == [(False, True), (False, False), (False, True)]


def reader_mask(reader: MaskReader) -> Tensor:
    return next(each for each in reader._held.values() if each.shape == (SIZE, SIZE))


def test_gradients_are_those_of_the_masked_call() -> None:
    model = Holder()
    gradients = []
    for attend in (MaskReader(model).attend, F.scaled_dot_product_attention):
        query, key, value = (each.requires_grad_() for each in inputs())
        attend(query, key, value, attn_mask=model.bias).square().sum().backward()
        gradients.append([each.grad for each in (query, key, value)])
    for one, other in zip(*gradients, strict=True):
        assert one is not None
        assert other is not None
        assert torch.allclose(one, other, atol=1e-5)


def test_a_batch_of_fewer_keys_than_the_mask_says_is_not_called_causal() -> None:
    """Not square: torch's causal would be counted from another corner."""
    model = Holder()
    query, key, value = inputs(9)
    last = query[:, :, -3:]
    mask = model.large[-3:]
    found = MaskReader(model).attend(last, key, value, attn_mask=mask)
    assert torch.equal(found, F.scaled_dot_product_attention(last, key, value, attn_mask=mask))
