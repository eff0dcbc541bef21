"""Updates that rounding alone decides, in perturbed runs."""

import pytest
import torch
from torch import Tensor, nn

from hasten.measure.vague import VagueUpdates

Tensors = dict[str, Tensor]


def vague(gradients: Tensors, updates: Tensors, *later: Tensors) -> VagueUpdates:
    base = {"gradients 1": gradients, "updates 1": updates}
    for number, each in enumerate(later, 2):
        base |= {f"gradients {number}": each, f"updates {number}": updates}
    return VagueUpdates(base, epsilon=1e-5)


def turned(found: VagueUpdates, gradients: Tensors, number: int = 1) -> Tensors:
    """What becomes of weights that a perturbed step has sent from 0 to 7."""
    model = nn.Linear(2, 2)
    for each in model.parameters():
        nn.init.constant_(each, 7.0)
    before = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    found.turn(model, before, gradients, number)
    return {name: p.detach() for name, p in model.named_parameters()}


def test_a_weight_whose_gradient_is_nothing_but_rounding_goes_the_other_way() -> None:
    gradients = {"weight": torch.ones(2, 2), "bias": torch.tensor([1e-9, -1e-9])}
    updates = {"weight": torch.ones(2, 2), "bias": torch.tensor([0.1, -0.2])}
    found = VagueUpdates(
        {
            "gradients 1": gradients,
            "updates 1": updates,
            "updates 2": {"weight": torch.ones(2, 2), "bias": torch.tensor([0.0, 0.3])},
        },
        epsilon=1e-5,
    )
    after = turned(found, gradients)
    assert after["bias"].tolist() == pytest.approx([-0.3, 0.3]), "as far as any step took it"
    assert after["weight"].tolist() == [[7.0, 7.0], [7.0, 7.0]]


def test_so_does_a_number_whose_gradient_has_no_sure_sign_and_no_other() -> None:
    gradients = {"weight": torch.ones(2, 2), "bias": torch.tensor([1e-3, 1.0])}
    updates = {"weight": torch.ones(2, 2), "bias": torch.tensor([0.1, 0.1])}
    moved = {"weight": torch.ones(2, 2), "bias": torch.tensor([1.7e-3, 1.0007])}
    after = turned(vague(gradients, updates), moved)
    assert after["bias"].tolist() == pytest.approx([-0.1, 7.0])
    assert after["weight"].tolist() == [[7.0, 7.0], [7.0, 7.0]]


def test_what_any_perturbation_moved_counts_for_those_that_follow() -> None:
    gradients = {"weight": torch.ones(2, 2), "bias": torch.tensor([1e-3, 1.0])}
    updates = {"weight": torch.ones(2, 2), "bias": torch.tensor([0.1, 0.1])}
    found = vague(gradients, updates)
    turned(found, {"weight": torch.ones(2, 2), "bias": torch.tensor([1.7e-3, 1.0])})
    assert turned(found, gradients)["bias"].tolist() == pytest.approx([-0.1, 7.0])


def test_a_sure_gradient_of_an_earlier_step_decides_the_later_updates() -> None:
    updates = {"weight": torch.ones(2, 2), "bias": torch.tensor([0.1, 0.1])}
    sure = {"weight": torch.ones(2, 2), "bias": torch.tensor([1.0, 1e-3])}
    unsure = {"weight": torch.ones(2, 2), "bias": torch.tensor([1e-3, 1e-3])}
    moved = {"weight": torch.ones(2, 2), "bias": torch.tensor([2e-3, 2e-3])}
    found = vague(sure, updates, unsure)
    turned(found, {"weight": torch.ones(2, 2), "bias": torch.tensor([1.001, 2e-3])})
    assert turned(found, moved, number=2)["bias"].tolist() == pytest.approx([7.0, -0.1])


def test_a_gradient_of_nothing_at_all_is_sure() -> None:
    """An update of decay alone, as of an embedding that no row named, is to be equal."""
    gradients = {"weight": torch.ones(2, 2), "bias": torch.tensor([0.0, 1.0])}
    updates = {"weight": torch.ones(2, 2), "bias": torch.tensor([0.1, 0.1])}
    assert turned(vague(gradients, updates), gradients)["bias"].tolist() == [7.0, 7.0]
