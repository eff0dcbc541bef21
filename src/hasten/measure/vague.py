"""Updates that rounding alone decides: Adam makes a whole one of any gradient, however small.

Two kinds, which perturbed runs of the baseline tell:

- A weight whose gradient is nothing but rounding, as a bias before BatchNorm. In these runs it is
  sent the other way, since what follows such a weight, there the running mean, is as vague as the
  weight itself.
- Single numbers of a weight whose gradients so far are not sure: so near to zero that a sign may
  turn, or of a training in which a perturbation grows from step to step. Three perturbations seldom
  move the one number of a small weight that another order of sums will. They may go the other way,
  and no further; all others of the weight are held to what they are.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from hasten.stats.yardstick import below_floor

UNSURE = 10.0
"""A gradient that is not so many times what a perturbation moves it by. Below twice that its sign
may turn; below ten times an update of several steps, which weighs them against each other, can
still become any other, and of a small weight one number tells."""

Tensors = Mapping[str, Tensor]


class VagueUpdates:
    """Learns from each perturbed run how far its gradients moved."""

    def __init__(self, base: Mapping[str, Tensors], epsilon: float) -> None:
        """``base`` is what the steps came to without a perturbation, as measure.numerics keeps
        it."""
        self._base = base
        self._epsilon = epsilon
        self._moved: dict[tuple[int, str], Tensor] = {}
        """The furthest in any run, up to each step."""
        self.unsure: dict[str, dict[str, Tensor]] = {}
        """By the keys of updates and by name: which numbers have no sure sign, so far."""

    @torch.no_grad()
    def turn(self, model: nn.Module, before: Tensors, gradients: Tensors, number: int) -> None:
        """Part of a perturbed step, whose weights were ``before`` and which found ``gradients``."""
        base = self._base[f"gradients {number}"]
        sizes = {name: float(each.double().norm()) for name, each in base.items()}
        nothing_but_rounding = below_floor(sizes, self._epsilon)
        unsure = self.unsure.setdefault(f"updates {number}", {})
        for name, gradient in base.items():
            if name in nothing_but_rounding:
                update = self._base[f"updates {number}"][name]
                turned = before[name] - self._largest_update(name) * update.sign()
                model.get_parameter(name).copy_(turned)
            else:
                unsure[name] = self._has_no_sure_sign(name, gradient, gradients[name], number)

    def _has_no_sure_sign(self, name: str, base: Tensor, found: Tensor, number: int) -> Tensor:
        """An update weighs all gradients so far, each by its size: a large one that is sure
        outweighs later ones, and one that is not sure outweighs what was small and sure."""
        moved, size = (found - base).abs(), base.abs()
        for earlier in range(1, number + 1):
            if (known := self._moved.get((earlier, name))) is not None:
                moved = torch.maximum(moved, known)
            if (gradient := self._base[f"gradients {earlier}"].get(name)) is not None:
                size = torch.maximum(size, gradient.abs())
        self._moved[number, name] = moved
        usual = moved.square().mean().sqrt()  # three runs may happen to move a number by little
        # What is zero and stays so has no gradient, as a row that no batch looks up; what is zero
        # by chance alone is as unsure as any other.
        has_gradient = (size > 0) | (moved > 0)
        return has_gradient & (size < UNSURE * moved.clamp(min=usual))

    def _largest_update(self, name: str) -> float:
        updates = [part[name] for key, part in self._base.items() if key.startswith("updates")]
        return max(float(each.abs().max()) if each.numel() else 0.0 for each in updates)


def difference(found: Tensor, base: Tensor, unsure: Tensor | None) -> Tensor:
    """How far ``found`` is from ``base``. A number without a sure sign may be as far the other way
    as any number of the weight goes."""
    apart = (found.double() - base.double()).abs()
    if unsure is None or not unsure.any():
        return apart
    excused = 2 * base.double().abs().max()
    return torch.where(unsure, (apart - excused).clamp(min=0.0), apart)
