"""By what a search for lenses is judged: the area under the curve of true over false alarms."""

import torch
from torch import Tensor


def auc(outputs: Tensor, targets: Tensor) -> Tensor:
    """Of logits (rows, classes), or (rows, scales, classes), whose probabilities are averaged."""
    probabilities = outputs.double().softmax(dim=-1)[..., 1]
    return area_under_curve(probabilities.reshape(len(outputs), -1).mean(dim=1), targets)


def area_under_curve(scores: Tensor, targets: Tensor) -> Tensor:
    """How often a lens has a higher score than a look-alike; an equal one counts as half.

    By ranks, as Mann and Whitney do; equal scores have the mean of theirs. NaN where a class is
    absent.
    """
    _, place, count = torch.unique(scores, return_inverse=True, return_counts=True)
    ranks = (count.cumsum(0) - (count - 1) / 2)[place].double()
    lenses = (targets == 1).double()
    positive, negative = lenses.sum(), (1 - lenses).sum()
    wins: Tensor = (ranks * lenses).sum() - positive * (positive + 1) / 2
    return wins / (positive * negative)
