"""From which share of a step on something is a finding, or what a step is bound by, and why.

The smallest gain that is ever claimed is 1 %, so that a share near that is not worth a trial: an
answer removes a part of a cost, rarely all of it.
"""

DATA_WAIT_SHARE = 0.03
"""Loaders can become nearly free, so a small share is worth a look."""
TRANSFER_SHARE = 0.05
"""A copy that overlaps with computing is nearly free, but needs pinned memory and a stream."""
SYNC_SHARE = 0.03
"""A reading that comes some steps later costs nothing at all."""
OPTIMIZER_SHARE = 0.05
"""A fused update takes about a third of the time of a loop over parameters."""
KERNEL_SHARE = 0.05
"""Memory that is kept is not cleared again, and keeping it costs no time."""
FAULT_S = 5e-6
"""What a page fault takes the kernel at most: 2 to 3 microseconds were seen, of 4 KiB on two busy
cores. What it does beyond that is something else."""
MOST_CLEARING = 0.5
"""Of a step: threads clear at the same time, and their seconds add up to more than it has."""
MODEL_SHARE = 0.15
"""Beyond its products. Compiling takes seconds to minutes, and rarely removes all of it."""
IDLE_SHARE = 0.10
"""A captured step leaves almost no gaps, but capturing restricts what a step may do."""
LIMIT_SHARE = 0.30
"""Below it, removing the largest cause altogether makes a step less than 1.5 times faster, and
naming it as what binds the step would send the user the wrong way."""
LAUNCH_COSTS = 5.0
"""A kernel of a training step takes the host up to so many times as long as the smallest operation
in a bare loop: modules, autograd and the optimizer's own Python come with it. What kernels do not
explain even so, is Python that launches nothing."""
CPU_LAUNCH_SHARE = 0.5
"""Of a step, that its operations would take if all were the smallest there are."""
CEILING_SHARE = 0.35
"""Of the model's time at a ceiling. Large matrix products alone reach it; whole networks that are
bound by them reach a third to two thirds of it."""
PRODUCTS_SHARE = 0.03
"""Of a step, that its products would take at the ceiling; small ones take ten times as long. Below
it a faster type gains little."""
FASTER_TYPE = 1.5
"""By how much another type's ceiling must be higher: casts take some of it back."""
VAGUE_BOUND = 1.3
"""How wide an interval may be, high over low, before phases tell more than the blocks did."""
MEMORY_PEAK_SHARE = 0.8
"""Of the device's memory: beyond it fragments of the allocator can end a training."""
