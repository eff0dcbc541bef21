"""What a rule is: one kind of trouble, in a file of its own under rules/, with its words, the
places that it looks at, and examples that are its tests."""

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from hasten.records.scan import Fix, Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site

Effort = Literal["a minute", "minutes", "an hour", "a day"]


@dataclass(frozen=True, slots=True)
class Found:
    """One finding, at ``node``, if the place turns out to be hot enough."""

    node: ast.AST
    message: str
    fix: Fix | None = None
    least: Heat | None = None
    """How often the line must run to be worth a word; None for the rule's own."""
    assumes: bool = True
    """Whether it may be said where a function is only taken for a part of a step."""
    group: str = ""
    """What it is fixed together with, all or none; of a rule that ``waits`` its loop if empty."""


class Rule(ABC):
    """Class attributes ``calls``, ``nodes`` and ``writes`` say where ``check`` is called."""

    code: ClassVar[str]
    name: ClassVar[str]
    """In words with dashes, for people who write ``ignore[...]``."""
    why: ClassVar[str]
    """What it costs, in a sentence or two."""
    instead: ClassVar[str]
    """What to write instead."""
    verify: ClassVar[str] = "Compare losses of both versions from the same seed."
    effort: ClassVar[Effort] = "minutes"
    risk: ClassVar[str] = "none: the numbers stay the same"
    calls: ClassVar[tuple[str, ...]] = ()
    """Last parts of the names of calls to look at: "item" for ``loss.item()``, "*Loader" for all
    that end so."""
    nodes: ClassVar[tuple[type[ast.AST], ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()
    """Attributes whose setting to look at: "benchmark" for ``cudnn.benchmark = True``."""
    mentions: ClassVar[tuple[str, ...]] = ()
    """Words of which one at least stands in a file where there is something to find; it saves
    a rule that looks at many places from looking at all others, and costs as much as a rule that
    looks at few."""
    assigned: ClassVar[tuple[type[ast.expr], ...]] = ()
    """Of a rule that looks at assignments: what the value of one must be; all if empty."""
    indexed: ClassVar[tuple[type[ast.expr], ...]] = ()
    """Of a rule that looks at subscripts: what the index of one must be; all if empty."""
    compared: ClassVar[tuple[type[ast.cmpop], ...]] = ()
    """Of a rule that looks at comparisons: what the first operator must be; all if empty."""
    in_loops: ClassVar[bool] = False
    """Whether only what stands in a loop of its function is looked at."""
    least: ClassVar[Heat] = Heat.STEP
    """How often a line must run to be worth a word."""
    severity: ClassVar[Severity | None] = None
    """None: by how often the line runs."""
    default: ClassVar[bool] = True
    """False for rules that must be asked for."""
    waits: ClassVar[bool] = False
    """Whether what it finds keeps the host waiting for the device. To remove one of the waits of a
    loop gains nothing while another is left: they are fixed all or none."""
    silent_in: ClassVar[tuple[str, ...]] = ()
    """Patterns of files in which it says nothing, as of tests, for whose speed nobody waits."""
    stops_gradients: ClassVar[bool] = False
    """Whether its fix lets a model run without gradients: it is not made where a model of the
    same tree takes some in its forward pass."""
    needs_torch: ClassVar[bool] = True
    """Whether it speaks only in files that import torch."""
    examples: ClassVar[tuple[str, ...]]
    """Whole files. A line that ends in ``# !`` must be found, and no other; one example at least
    has such a line, and one has none."""

    @abstractmethod
    def check(self, site: Site, look: Look) -> Iterator[Found]: ...
