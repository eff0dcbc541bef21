"""Workers that are started anew each epoch, or that hand over memory that is not pinned."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Fix, Severity
from hasten.scan.edits import add_keyword, fix_of
from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import LoaderCall, LoaderTrouble, read_loader

MESSAGES: dict[LoaderTrouble | None, str] = {
    "restarted": "this loader starts its workers anew each time that it is gone through",
    "unpinned": "this loader's batches are not pinned: their copies to the device are waited for",
}


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
    calls = ("DataLoader",)
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
from torch.utils.data import DataLoader

def loaders(train_set, test_set, workers):
    train = DataLoader(train_set, batch_size=64, shuffle=True, num_workers=workers)  # !
    test = DataLoader(test_set, pin_memory=True, num_workers=8)  # !
    other = DataLoader(test_set, num_workers=8, persistent_workers=True)  # !
    return train, test, other
""",
        """\
from torch.utils.data import DataLoader

def loader(train_set, count):
    return DataLoader(
        train_set, num_workers=count, pin_memory=True, persistent_workers=count > 0
    )
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loader = read_loader(site, look)
        message = MESSAGES.get(loader.trouble) if loader is not None else None
        if loader is not None and message is not None:
            yield Found(site.node, message, _fix(loader, look))


def _fix(loader: LoaderCall, look: Look) -> Fix | None:
    """The one setting that the message is about."""
    if loader.trouble == "unpinned":
        about = "Pins the batches: it takes memory of the host that cannot be swapped."
        return fix_of("unsafe", about, add_keyword(look.lines, loader.call, "pin_memory", "True"))
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
