"""What an optimization must say of itself, and what it leaves behind when it is applied."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Generic, Literal, TypeVar

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.record import Record
from hasten.records.traits import Traits
from hasten.records.trial import Conflict
from hasten.task.pipeline import Pipeline


class Part(Record, frozen=True, kw_only=True):
    """The settings of one technique in a plan. Closed, and every field has a default."""


class Stage(IntEnum):
    """The order in which techniques compose; each works on what the ones before it left."""

    BATCH = 0
    """How many rows an update is of."""
    DATA = 1
    """Which loader gives the batches."""
    TRANSFER = 2
    """How they come to the device."""
    INIT = 3
    """The weights at the start."""
    LAYOUT = 4
    """How weights and batches lie in memory."""
    CHECKPOINTING = 5
    """What is kept for the backward pass."""
    COMPILE = 6
    """The model as compiled code."""
    PRECISION = 7
    """Types of arithmetic; this and the next surround the forward pass, compiled or not."""
    ATTENTION = 8
    """Which kernel attends."""
    SHARD = 9
    """Where the weights lie."""
    OPTIMIZER = 10
    """How the update is computed."""
    ACCUMULATION = 11
    """In how many pieces a batch is computed."""
    GRAPH = 12
    """The step as a graph."""
    READINGS = 13
    """Figures of steps that are done."""


class CannotApply(Exception):  # noqa: N818  # a reason, not a fault: it becomes a "skipped" record
    """Raised by ``apply`` when the live objects turn out not to allow it; nothing was changed."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What was done to a pipeline."""

    why: str | Callable[[], str]
    """What changed, in words, for the report; a function where the words change as steps run."""
    undo: Callable[[], None]
    """Puts back all that was changed, globals included."""
    did_run: Callable[[], str | None] = lambda: None
    """Asked after the first real step: None, or why the technique did not really run."""
    problem: Callable[[], str | None] | None = None
    """Asked after every step: None, or why the technique must be dropped before the next. The
    step that was done is right, only slow. Must be cheap."""
    is_warming: Callable[[], bool] = lambda: False
    """Whether coming steps still prepare, as a capture does; they are not timed."""
    remember: Callable[[], Any] | None = None
    """What it has learnt from the batches so far, as plain values, if that decides what it does to
    the next; a checkpoint keeps it."""
    recall: Callable[[Any], None] | None = None
    """Takes over what it remembered in another process."""

    def words(self) -> str:
        return self.why if isinstance(self.why, str) else self.why()


P = TypeVar("P", bound=Part)


class Technique(ABC, Generic[P]):
    """One optimization. Instances hold no state; what is applied lives in the Effect."""

    name: ClassVar[str]
    """That a plan names it by: a Python identifier."""
    part: ClassVar[type[Any]]
    """The structure of its settings in a plan."""
    stage: ClassVar[Stage]
    """When it is applied, beside others."""
    rung: ClassVar[Rung]
    """The best rung that it can claim; it is held to this one."""
    answers: ClassVar[tuple[str, ...]]
    """Codes of the findings that it is an answer to."""
    about: ClassVar[str]
    """One sentence: what it does."""
    helps: ClassVar[str] = ""
    """When it helps."""
    costs: ClassVar[str] = ""
    """What it costs: time to prepare, memory, precision."""
    limits: ClassVar[str] = ""
    """Where it does not apply, and what it does not see."""
    needs: ClassVar[str] = ""
    """The hardware and software that it needs."""
    slow_to_prepare: ClassVar[bool] = False
    """Whether its first step takes long, as a compilation does; what is quick comes before it."""
    untried: ClassVar[str] = "it has no setting worth a trial here"
    """Why, where it could apply and `to_try` gives nothing."""
    steadies: ClassVar[bool] = False
    """Whether processes of one training differ by luck in what it removes, so that whatever is
    timed without it is a matter of luck too; such come first, unless they could gain little."""
    reserved_for: ClassVar[Literal["ultra", "asked"] | None] = None
    """Chosen by no level but ULTRA, or by none at all: only where it is asked for by name."""
    instead_of: ClassVar[tuple[str, ...]] = ()
    """Techniques that have nothing left to do beside this one."""
    brings: ClassVar[tuple[str, ...]] = ()
    """Techniques that a trial of this one takes along where they are offered: it may not work or
    pay without them, and they may not pay by themselves."""
    conflicts: ClassVar[tuple[Conflict, ...]] = ()
    """What it must not be combined with. Such plans are refused, and never tried."""

    def unavailable(self, environment: Environment) -> str | None:
        """Why this machine cannot run it; None where it can."""
        return None

    def unsuited(self, traits: Traits) -> str | None:
        """Why this model or data gives it nothing to do; None where there is something."""
        return None

    @abstractmethod
    def to_try(self, environment: Environment, traits: Traits) -> list[P]:
        """The settings worth a trial, the most promising first."""

    def strongest(self, environment: Environment, traits: Traits) -> P:
        """The settings at the level ULTRA, which waits long for a little more."""
        tries = self.to_try(environment, traits)
        part: P = tries[0] if tries else self.part()
        return part

    @abstractmethod
    def apply(self, pipeline: Pipeline, part: P) -> Effect:
        """Change the pipeline, or raise CannotApply and change nothing."""
