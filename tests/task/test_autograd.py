"""The graph behind a loss tells what torch really did."""

import inspect
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from hasten.records.finding import Place
from hasten.task.autograd import attention_in, computed_dtypes, has_compiled_code, nodes_of
from hasten.task.places import shown

HEADS, LENGTH, WIDTH = 2, 5, 4


@pytest.fixture
def split() -> list[Tensor]:
    return [torch.randn(3, HEADS, LENGTH, WIDTH, requires_grad=True) for _ in range(3)]


def by_hand(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query @ key.transpose(-2, -1) / math.sqrt(WIDTH)
    hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    scores = scores.masked_fill(hidden, float("-inf"))
    return F.dropout(scores.softmax(-1), 0.1) @ value


def by_einsum(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    shares = torch.einsum("bhqd,bhkd->bhqk", query, key).softmax(-1)
    return torch.einsum("bhqk,bhkd->bhqd", shares, value)


def by_bmm(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    one, other, third = (each.flatten(0, 1) for each in (query, key, value))
    return torch.bmm(torch.bmm(one, other.transpose(1, 2)).softmax(-1), third)


def fused(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def fused_by_mathematics(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(query, key, value)


Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


@pytest.mark.parametrize("attend", [by_hand, by_einsum, by_bmm])
def test_products_around_a_softmax_are_attention_by_hand(
    attend: Attend, split: list[Tensor]
) -> None:
    assert attention_in(attend(*split).sum())[0] == ("hand_written",)


@pytest.mark.parametrize("attend", [fused, fused_by_mathematics])
def test_torchs_own_attention_is_known(attend: Attend, split: list[Tensor]) -> None:
    assert attention_in(attend(*split).sum())[0] == ("fused",)


def test_both_in_one_model_are_both_found(split: list[Tensor]) -> None:
    assert attention_in(by_hand(*split).sum() + fused(*split).sum())[0] == ("fused", "hand_written")


@pytest.mark.parametrize("need_weights", [False, True])
def test_multihead_attention_is_torchs_own_unless_weights_are_asked_for(
    need_weights: bool,
) -> None:
    layer, inputs = nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(3, LENGTH, 8)
    outputs, _ = layer(inputs, inputs, inputs, need_weights=need_weights)
    assert attention_in(outputs.sum())[0] == (("hand_written",) if need_weights else ("fused",))


def test_a_transformer_layer_is_torchs_own() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    assert attention_in(layer(torch.randn(3, LENGTH, 8)).sum())[0] == ("fused",)


def test_the_softmax_of_a_classifier_is_not_attention() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(-1))
    outputs = model(torch.randn(5, 4))
    assert attention_in(outputs.log().mean())[0] == ()
    assert attention_in(F.cross_entropy(outputs, torch.zeros(5, dtype=torch.long)))[0] == ()


def test_a_softmax_that_weighs_rows_is_not_attention() -> None:
    """Pooling by learned scores: one product after it, none before."""
    scores, values = torch.randn(3, 1, 5, requires_grad=True), torch.randn(3, 5, 4)
    assert attention_in(torch.bmm(scores.softmax(-1), values).sum())[0] == ()


def test_a_model_without_attention_has_none() -> None:
    outputs, _ = nn.LSTM(4, 4)(torch.randn(2, 3, 4))
    assert attention_in(outputs.sum())[0] == ()
    assert attention_in(torch.ones(2))[0] == ()


def test_every_node_is_visited_once() -> None:
    weight = torch.ones(2, requires_grad=True)
    twice = weight * 2
    nodes = sorted(node.name() for node in nodes_of({"a": twice + twice, "b": [twice.sum()]}))
    assert [name.split("::")[-1] for name in nodes] == [
        "AddBackward0",
        "MulBackward0",
        "SumBackward0",
        "AccumulateGrad",
    ]


def test_compiled_code_is_seen_and_eager_code_is_not() -> None:
    layer = nn.Linear(3, 2)
    compiled = torch.compile(lambda inputs: layer(inputs).relu(), backend="aot_eager")
    assert not has_compiled_code(layer(torch.ones(1, 3)))
    assert has_compiled_code({"out": [compiled(torch.ones(1, 3)).sum()]})
    torch._dynamo.reset()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_types_that_were_computed_in_are_known(dtype: torch.dtype) -> None:
    model, inputs = nn.Sequential(nn.Linear(3, 2), nn.ReLU()), torch.ones(4, 3)
    assert computed_dtypes(model(inputs).sum()) == {torch.float32}
    with torch.autocast("cpu", dtype):
        assert dtype in computed_dtypes(model(inputs).float().sum())
        compiled = torch.compile(lambda inputs: model(inputs).float(), backend="aot_eager")
        assert dtype in computed_dtypes(compiled(inputs).sum())
    torch._dynamo.reset()


def test_reading_the_types_computes_no_checkpoint_again() -> None:
    calls = []
    layer = nn.Linear(3, 2)

    def block(inputs: Tensor) -> Tensor:
        calls.append(1)
        return layer(inputs).relu()

    outputs = checkpoint(block, torch.ones(4, 3), use_reentrant=False)
    assert computed_dtypes(outputs) == {torch.float32}
    assert len(calls) == 1
    outputs.sum().backward()
    assert len(calls) == 2


def test_attention_by_hand_is_found_at_its_line() -> None:
    inputs = torch.randn(2, 5, 8, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        weights = torch.bmm(inputs, inputs.transpose(1, 2)).softmax(-1)
        line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
        output = torch.bmm(weights, inputs)
    _, place = attention_in(output.sum())
    assert place == Place(path=shown(__file__), line=line)
    assert attention_in(torch.bmm(inputs, inputs.transpose(1, 2)).sum()) == ((), None)
