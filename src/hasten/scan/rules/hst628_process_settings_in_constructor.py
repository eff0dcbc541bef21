"""A constructor that changes settings of the whole process."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

TORCH = (
    "set_num_threads",
    "set_num_interop_threads",
    "set_float32_matmul_precision",
    "set_per_process_memory_fraction",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_default_device",
)
OTHERS = ("sched_setaffinity", "cpu_affinity", "setpriority", "nice")


class ProcessSettingsInConstructor(Rule):
    code = "HST628"
    name = "process-settings-in-constructor"
    why = (
        "Making an object changes threads, precision or memory of everything else in the process,"
        " behind the back of who runs it; the next object may set something else."
    )
    instead = "Set it in the program's entry, or in a method that says so and can be undone."
    risk = "what relied on the setting has to ask for it"
    calls = (*TORCH, *OTHERS)
    writes = ("allow_tf32",)
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Trainer:
    def __init__(self, threads):
        torch.set_num_threads(threads)  # !
        torch.backends.cuda.matmul.allow_tf32 = True  # !
        torch.cuda.set_per_process_memory_fraction(0.9)  # !
""",
        """\
import os
import psutil
import torch

class Worker:
    def __init__(self, cores):
        os.sched_setaffinity(0, cores)  # !
        psutil.Process().cpu_affinity(cores)  # !
""",
        """\
import torch

def main():
    torch.set_num_threads(4)
    torch.backends.cuda.matmul.allow_tf32 = True

class Trainer:
    def __init__(self):
        self.allow_tf32 = True

    def prepare(self):
        torch.set_float32_matmul_precision("high")
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.function.last_name != "__init__" or site.function.owner is None:
            return
        node = site.node
        changed = getattr(node, "func", node)
        dotted = look.dotted(changed)
        if dotted.startswith("torch.") or (
            changed is not node and called_name(node) in OTHERS and node.args
        ):
            yield Found(node, f"`{look.source(changed)}` changes the whole process")
