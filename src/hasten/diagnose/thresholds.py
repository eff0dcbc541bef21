"""From which share of a step on something is a finding, and why.

The smallest gain that is ever claimed is 1 %, so that a share near that is not worth a trial: an
answer removes a part of a cost, rarely all of it.
"""

DATA_WAIT_SHARE = 0.03
"""Loaders can become nearly free, so a small share is worth a look."""
OPTIMIZER_SHARE = 0.05
"""A fused update takes about a third of the time of a loop over parameters."""
MODEL_SHARE = 0.30
"""A compiled model is rarely twice as fast, and compiling takes seconds to minutes."""
