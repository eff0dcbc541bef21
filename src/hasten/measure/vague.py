"""Updates that rounding alone decides: Adam makes a whole one of any gradient, however small.

In the runs with perturbed weights they are sent the other way, so that what may come of them is in
the yardstick. Two kinds:

- A weight whose gradient is nothing but rounding, as a bias before BatchNorm; what follows such a
  weight, there the running mean, is as vague as the weight itself.
- Single numbers of a weight whose gradient is so near to zero that its sign is not sure. In a small
  weight few are, and three perturbations seldom meet the one that another order of sums will.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from hasten.stats.yardstick import ALLOWED, below_floor

Tensors = Mapping[str, Tensor]


class VagueUpdates:
    """Learns from each perturbed run how far its gradients moved, and knows best in the last."""

    def __init__(self, base: Mapping[str, Tensors], epsilon: float) -> None:
        """``base`` is what the steps came to without a perturbation, as measure.numerics keeps
        it."""
        self._base = base
        self._epsilon = epsilon
        self._moved: dict[tuple[int, str], Tensor] = {}
        self._unsure: dict[str, Tensor] = {}
        """Of this run: numbers whose gradient had no sure sign in any of its steps."""
        self._every = [part for key, part in base.items() if key.startswith("updates")]

    @torch.no_grad()
    def turn(self, model: nn.Module, before: Tensors, gradients: Tensors, number: int) -> None:
        """Part of a perturbed step, whose weights were ``before`` and which found ``gradients``."""
        base = self._base[f"gradients {number}"]
        sizes = {name: float(each.double().norm()) for name, each in base.items()}
        nothing_but_rounding = below_floor(sizes, self._epsilon)
        for name, gradient in base.items():
            unsure = self._look(name, gradient, gradients[name], number)
            parameter = model.get_parameter(name)
            update = self._base[f"updates {number}"][name]
            if name in nothing_but_rounding:
                parameter.copy_(before[name] - self._largest(name) * update.sign())
            elif unsure.any():
                turned = torch.where(unsure, before[name] - update, parameter.cpu())
                parameter.copy_(turned)

    def _look(self, name: str, base: Tensor, found: Tensor, number: int) -> Tensor:
        moved = (found - base).abs()
        known = self._moved.get((number, name))
        moved = moved if known is None else torch.maximum(moved, known)
        self._moved[number, name] = moved
        unsure = base.abs() < ALLOWED * moved
        if number > 1 and name in self._unsure:
            unsure &= self._unsure[name]  # a sure gradient of an earlier step outweighs this one
        self._unsure[name] = unsure
        return unsure

    def _largest(self, name: str) -> float:
        every = [each[name].abs() for each in self._every]
        return max(float(each.max()) if each.numel() else 0.0 for each in every)
