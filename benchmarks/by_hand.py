"""The gallery's transformers with attention written out, as much code in the wild has it."""

from functools import partial

from hasten import Task
from hasten.gallery.transformer import Block
from hasten.task.load import load_factory


def make_task(name: str, size: str) -> Task:
    task = load_factory(f"gallery:{name}@{size}")()
    for module in task.model.modules():
        if isinstance(module, Block):
            module.fused = False
    return task


gpt_small = partial(make_task, "gpt", "small")
gpt_full = partial(make_task, "gpt", "full")
microbiome_small = partial(make_task, "microbiome", "small")
microbiome_full = partial(make_task, "microbiome", "full")
