"""The bundled workloads as the naive arm trains them: what tune is given to make fast.

A loader with two workers that start anew each epoch, AdamW one weight after the other, gradients
clipped. ``..._by_hand`` has attention written out as in the papers.
"""

from collections.abc import Callable

from arms import workload
from hasten.task.load import load_factory
from hasten.task.task import Task


def _given(name: str, *, by_hand: bool = False) -> Callable[[], Task]:
    def make_task() -> Task:
        task = load_factory(f"gallery:{name}")()
        if by_hand:
            workload.use_attention_by_hand(task.model)
        return workload.as_given(task)

    return make_task


bloom = _given("bloom@full")
battery = _given("battery@full")
lensing = _given("lensing@full")
microbiome = _given("microbiome@full")
microbiome_by_hand = _given("microbiome@full", by_hand=True)
gpt = _given("gpt@full")
gpt_by_hand = _given("gpt@full", by_hand=True)

bloom_small = _given("bloom")
"""To rehearse on a CPU."""
