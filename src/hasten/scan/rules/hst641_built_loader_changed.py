"""A setting of a loader that is built already."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan import vocabulary
from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.training import last_name

REFUSED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
UNCHECKED = ("num_workers", "prefetch_factor", "pin_memory")


class BuiltLoaderChanged(Rule):
    code = "HST641"
    name = "built-loader-changed"
    why = (
        "A DataLoader is finished when it is made: most settings raise an error when they are set"
        " later, and others are not looked at again or leave the loader in a state that it checks"
        " nowhere."
    )
    instead = "Make a new loader with the new settings."
    verify = "Go over one epoch, and look at `loader._iterator`."
    writes = (*REFUSED, *UNCHECKED)
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
from torch.utils.data import DataLoader

def load(dataset):
    loader = DataLoader(dataset, batch_size=32)
    loader.num_workers = 4  # !
    loader.persistent_workers = True  # !
    return loader
""",
        """\
import torch

def faster(train_loader):
    train_loader.pin_memory = True  # !
    return train_loader
""",
        """\
import torch
from torch.utils.data import DataLoader

class Data:
    def __init__(self, cfg, size):
        self.batch_size = size
        cfg.train_dataloader.batch_size = size
        self.loader = DataLoader(cfg.data, batch_size=size, num_workers=4)

class MyLoader:
    def set(self, size):
        self.batch_size = size
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        on = site.node.value
        made = look.values.given(on, site.function)
        if isinstance(made, ast.Call):
            is_loader = called_name(made) in vocabulary.LOADERS
        else:
            is_loader = isinstance(on, ast.Name) and last_name(on).lower().endswith("loader")
        if is_loader:
            words = "raises an error" if site.node.attr in REFUSED else "is not checked"
            yield Found(site.node, f"setting `{look.source(site.node)}` on a built loader {words}")
