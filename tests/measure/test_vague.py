"""Updates that rounding alone decides, in perturbed runs."""

import pytest
import torch
from torch import Tensor, nn

from hasten.measure.vague import VagueUpdates, difference

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


def unsure(found: VagueUpdates, number: int = 1) -> list[bool]:
    marks: list[bool] = found.unsure[f"updates {number}"]["bias"].tolist()
    return marks


def gradients(*bias: float) -> Tensors:
    return {"weight": torch.ones(2, 2), "bias": torch.tensor(bias)}


UPDATES = {"weight": torch.ones(2, 2), "bias": torch.tensor([0.1, 0.1])}


def test_a_number_whose_gradient_may_have_either_sign_is_unsure_and_goes_where_it_went() -> None:
    found = vague(gradients(1e-3, 1.0), UPDATES)
    after = turned(found, gradients(1.7e-3, 1.0007))
    assert unsure(found) == [True, False]
    assert after["bias"].tolist() == [7.0, 7.0]


def test_a_number_that_happened_to_move_by_less_than_the_others_is_unsure_too() -> None:
    found = vague(gradients(1e-3, 1.0), UPDATES)
    turned(found, gradients(1.0001e-3, 1.0003))
    assert unsure(found) == [True, False]


def test_what_any_perturbation_moved_counts_for_those_that_follow() -> None:
    found = vague(gradients(1e-3, 1.0), UPDATES)
    turned(found, gradients(1.7e-3, 1.0))
    turned(found, gradients(1e-3, 1.0))
    assert unsure(found) == [True, False]


def test_a_sure_gradient_of_an_earlier_step_decides_the_later_updates() -> None:
    found = vague(gradients(1.0, 1e-3), UPDATES, gradients(1e-3, 1e-3))
    turned(found, gradients(1.001, 2e-3))
    turned(found, gradients(2e-3, 2e-3), number=2)
    assert unsure(found, 2) == [False, True]


def test_a_large_gradient_that_is_not_sure_decides_over_a_small_one_that_was() -> None:
    found = vague(gradients(1e-2, 1.0), UPDATES, gradients(0.5, 1.0))
    turned(found, gradients(1.0001e-2, 1.0))
    turned(found, gradients(0.1, 1.0), number=2)
    assert unsure(found) == [False, False]
    assert unsure(found, 2) == [True, True], "the one that did not move is as loose as the other"


def test_a_weight_may_get_its_first_gradient_in_a_later_step() -> None:
    """As the first of two factors of which the second begins at zero."""
    without = {"weight": torch.ones(2, 2)}
    found = vague(without, UPDATES, gradients(0.0, 0.0), gradients(1e-3, 1.0))
    for _ in range(2):  # what one run has met in its later steps is not there when the next begins
        turned(found, without)
        turned(found, gradients(0.0, 0.0), number=2)
        turned(found, gradients(1.7e-3, 1.0007), number=3)
    assert unsure(found, 3) == [True, False]


def test_a_gradient_of_nothing_at_all_is_sure() -> None:
    """An update of decay alone, as of an embedding that no row named, is to be equal."""
    found = vague(gradients(0.0, 1.0), UPDATES)
    turned(found, gradients(0.0, 1.0))
    assert unsure(found) == [False, False]


@pytest.mark.parametrize(("found", "apart"), [(0.1, 0.0), (-0.1, 0.0), (-0.2, 0.1), (0.4, 0.1)])
def test_an_unsure_update_may_be_the_other_way_and_no_further(found: float, apart: float) -> None:
    base, marks = torch.tensor([0.1, 0.1]), torch.tensor([True, False])
    measured = difference(torch.tensor([found, 0.4]), base, marks)
    assert measured.tolist() == pytest.approx([apart, 0.3])
    smaller = difference(torch.tensor([-0.05, 0.1]), torch.tensor([0.01, 0.1]), marks)
    assert smaller.tolist() == [0.0, 0.0], "as far as another number of the weight"


def test_a_gradient_that_is_zero_by_chance_is_unsure_and_one_that_stays_zero_is_none() -> None:
    """A bias of keys in attention has no gradient but rounding, which may come to nothing at all; a
    row that no batch looks up has none."""
    found = vague(gradients(0.0, 0.0, 1.0), UPDATES)
    turned(found, gradients(1e-11, 0.0, 1.0))
    assert unsure(found) == [True, False, False]
