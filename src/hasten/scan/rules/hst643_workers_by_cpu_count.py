"""As many workers as the machine has CPUs."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan import vocabulary
from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class WorkersByCpuCount(Rule):
    code = "HST643"
    name = "workers-by-cpu-count"
    why = (
        "`cpu_count()` counts the machine's CPUs, not those that a container or a job may use: on a"
        " shared machine dozens of workers crowd a few cores, each with memory of its own."
    )
    instead = "Start from `len(os.sched_getaffinity(0))`, and measure: few workers are often best."
    effort = "a minute"
    verify = "Time an epoch of the loader alone with some numbers of workers."
    calls = tuple(sorted(vocabulary.LOADERS))
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import os
from torch.utils.data import DataLoader

def load(dataset):
    return DataLoader(dataset, batch_size=32, num_workers=os.cpu_count())  # !
""",
        """\
from multiprocessing import cpu_count
from torch.utils.data import DataLoader

def load(dataset):
    workers = cpu_count()
    return DataLoader(dataset, batch_size=32, num_workers=workers)  # !
""",
        """\
import os
from torch.utils.data import DataLoader

def load(dataset, args):
    workers = len(os.sched_getaffinity(0))
    one = DataLoader(dataset, num_workers=workers)
    two = DataLoader(dataset, num_workers=min(4, os.cpu_count()))
    return DataLoader(dataset, num_workers=args.workers)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        workers = argument(site.node, 5, "num_workers")
        if workers is None:
            return
        made = look.values.given(workers, site.function)
        while isinstance(made, ast.BinOp):  # half of them, or all but one
            made = made.left
        if isinstance(made, ast.Call) and called_name(made) == "cpu_count":
            yield Found(workers, "`cpu_count()` counts CPUs that this process may not use")
