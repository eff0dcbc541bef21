"""Workers that are started anew each epoch, or that hand over memory that is not pinned."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Fix, Severity
from hasten.scan.arguments import add_keyword
from hasten.scan.edits import fix_of
from hasten.scan.heat import Heat, bare
from hasten.scan.look import Look, argument, called_name, keyword
from hasten.scan.moves import moves_to_device
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import LoaderCall, read_loader
from hasten.scan.trace import last_name, names

RESTARTED = "this loader starts its workers anew each time that it is gone through"
UNPINNED = "this loader's batches are not pinned: their copies to the device are waited for"
ALSO_BLOCKING = (
    "this loader's batches are not pinned, and nothing in this file copies with"
    " `non_blocking=True`: with either missing, copies to the device are waited for"
)
BY_HAND = (
    "Give `pin_memory=True`, and copy the batches with `non_blocking=True`: the one gains nothing"
    " without the other. Samples must lie on the host: what lies on a device cannot be pinned."
)
NON_BLOCKING = re.compile(r"\bnon_blocking\s*=(?!\s*False)")
ONCE = re.compile(r"(^|[\W_])(test|predict|inference)")
GO_THROUGH = ("list", "tuple", "tqdm", "enumerate", "iter", "next")


class LoaderSettings(Rule):
    code = "HST103"
    name = "loader-settings-missing"
    why = (
        "Workers that are not kept are started, and import everything, again each epoch; from"
        " memory that is not pinned a copy to the device cannot overlap with computing."
    )
    instead = (
        "Give `persistent_workers=num_workers > 0` and `pin_memory=True`, and copy with"
        " `non_blocking=True`."
    )
    verify = "Time the first batch of the second epoch."
    effort = "a minute"
    risk = "kept workers change the order of samples from the second epoch on"
    calls = ("*Loader", "__init__")
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
from torch.utils.data import DataLoader

def loaders(train_set, valid_set, workers):
    train = DataLoader(train_set, num_workers=workers)  # !
    other = DataLoader(valid_set, num_workers=8, persistent_workers=True)  # !
    return train, other

class Data:
    def setup(self, rows):
        self.valid = DataLoader(rows, pin_memory=True, num_workers=8)  # !

    def train_dataloader(self):
        return DataLoader(self.rows, pin_memory=True, num_workers=8)  # !

    def val_dataloader(self):
        return DataLoader(  # !
            self.valid_set, pin_memory=True, num_workers=8, persistent_workers=False
        )
""",
        """\
import torch
from torch.utils.data import DataLoader

def train(model, dataset, valid_set, optimizer, epochs):
    loader = DataLoader(dataset, num_workers=4, pin_memory=True)  # !
    valid = DataLoader(valid_set, num_workers=4, pin_memory=True)
    for epoch in range(epochs):
        for step, (x, y) in enumerate(loader):
            model(x, y).backward()
            optimizer.step()
    for x, y in valid:
        model(x, y)
    for seed in range(3):
        again = DataLoader(dataset, num_workers=4, pin_memory=True)
        for x, y in again:
            model(x, y)
""",
        """\
import torch
from torch.utils.data import DataLoader

def train(model, dataset, optimizer, device):
    loader = DataLoader(dataset, num_workers=8, persistent_workers=True)  # !
    for x, y in loader:
        model(x.to(device, non_blocking=True), y.to(device, non_blocking=True)).backward()
        optimizer.step()
""",
        """\
import torch
from torch.utils.data import DataLoader
from mine import GraphLoader

class Batches(DataLoader):
    def __init__(self, dataset, workers):
        super().__init__(dataset=dataset, num_workers=workers)  # !

def loader(dataset, workers):
    return GraphLoader(dataset, batch_size=None, num_workers=workers)  # !
""",
        """\
import torch
from torch import nn
from mine import FileLoader

class Pool(nn.Module):
    def __init__(self, dataset, workers):
        super().__init__(dataset, num_workers=workers)

def read(path):
    return FileLoader(path)
""",
        """\
from torch.utils.data import DataLoader

def test_loader(data, count):
    return DataLoader(data, num_workers=count)

def loaders(train_set, count):
    train = DataLoader(train_set, num_workers=count, pin_memory=True)
    kept = DataLoader(
        train_set, num_workers=count, pin_memory=True, persistent_workers=count > 0
    )
    return train, kept

def sizes(dataset, count):
    sizes_of = DataLoader(dataset, num_workers=count)
    return list(tqdm(sizes_of))
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loader = read_loader(site, look)
        trouble = loader.trouble if loader is not None else None
        if loader is None:
            return
        if trouble == "unpinned":
            message = UNPINNED if _copies_at_leisure(look) else ALSO_BLOCKING
            yield Found(site.node, message, _pin(loader, look))
        elif trouble == "restarted" and not _is_gone_through_once(loader, site, look):
            yield Found(site.node, RESTARTED, _keep_workers(loader, look))


def _pin(loader: LoaderCall, look: Look) -> Fix | None:
    """A loader of another name may not have the setting."""
    if called_name(loader.call) != "DataLoader":
        return None
    if not _copies_at_leisure(look) or _prepares_on_device(look):
        return Fix(safety="display", about=BY_HAND)
    about = "Pins the batches: it takes memory of the host that cannot be swapped."
    return fix_of("unsafe", about, add_keyword(look.lines, loader.call, "pin_memory", "True"))


def _copies_at_leisure(look: Look) -> bool:
    """Whether something in the file is copied while Python goes on."""
    return NON_BLOCKING.search(look.text) is not None


def _prepares_on_device(look: Look) -> bool:
    """Whether samples or batches lie on the device before they leave the loader."""
    return any(
        moves_to_device(each.node) or keyword(each.node, "device") is not None
        for function in look.outline.functions
        if look.heats.prepares_data(function)
        for each in function.calls
        if each.called in ("to", "cuda") or look.is_of_torch(each.node)
    )


def _keep_workers(loader: LoaderCall, look: Look) -> Fix | None:
    """A loader of another name may not have the setting."""
    if called_name(loader.call) != "DataLoader":
        return None
    if keyword(loader.call, "persistent_workers") is not None:
        return None
    workers = argument(loader.call, 5, "num_workers")
    if isinstance(workers, ast.Constant):
        kept = "True"
    elif isinstance(workers, ast.Name | ast.Attribute):
        kept = f"{look.source(workers)} > 0"
    else:
        return None
    about = "Keeps the workers: from the second epoch on samples come in another order."
    edit = add_keyword(look.lines, loader.call, "persistent_workers", kept)
    return fix_of("unsafe", about, edit)


def _is_gone_through_once(loader: LoaderCall, site: Site, look: Look) -> bool:
    """Whether it is for a test or for predictions, as far as names tell; of one that is set well
    but for this it must be seen that it is kept."""
    given_to = look.lines_of(site.statement).partition("=")[0].partition("(")[0]
    if ONCE.search(f"{site.function.last_name} {given_to}") is not None or _is_used_up(site):
        return True
    return argument(loader.call, 7, "pin_memory") is not None and not _is_kept(site)


def _is_used_up(site: Site) -> bool:
    """Whether the function itself goes through it, not in a loop over epochs, and gives it to
    nobody else: ``list(tqdm(loader))``."""
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if site.loop is None:
            pass
        case _:
            return False
    if _is_gone_through_again(name, site):
        return False
    read = [
        each
        for each in site.function.calls
        if any(isinstance(given, ast.Name) and given.id == name for given in each.node.args)
    ]
    if not read or not all(each.called in GO_THROUGH and each.loop is None for each in read):
        return False
    return sum(each == name for each in names(site.function.node)) == len(read) + 1


def _is_kept(site: Site) -> bool:
    """For as long as its owner lives: in an attribute, or by what calls a hook of its name. Or for
    a loop over epochs, in which another goes through it."""
    match site.statement:
        case ast.Assign(targets=[ast.Attribute()]):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) if _is_gone_through_again(name, site):
            return True
    return site.function.last_name.endswith("loader")


def _is_gone_through_again(name: str, site: Site) -> bool:
    """Whether a loop below goes through it within another that does not make it anew."""
    return any(
        loop.outer is not None
        and loop.line > site.node.lineno
        and not loop.outer.holds(site.node.lineno)
        and last_name(bare(loop.header()[1])) == name
        for loop in site.function.loops
    )
