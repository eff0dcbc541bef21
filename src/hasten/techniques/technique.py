"""What an optimization must say of itself, and what it leaves behind when it is applied."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Generic, TypeVar

from hasten.records.environment import Environment
from hasten.records.plan import Rung
from hasten.records.record import Record
from hasten.records.traits import Traits
from hasten.task.pipeline import Pipeline


class Part(Record, frozen=True, kw_only=True):
    """The settings of one technique in a plan. Closed, and every field has a default."""


class Stage(IntEnum):
    """The order in which techniques compose; each works on what the ones before it left."""

    DATA = 0
    INIT = 1
    LAYOUT = 2
    ATTENTION = 3
    CHECKPOINTING = 4
    COMPILE = 5
    SHARD = 6
    OPTIMIZER = 7
    GRAPH = 8


class CannotApply(Exception):  # noqa: N818  # a reason, not a fault: it becomes a "skipped" record
    """Raised by ``apply`` when the live objects turn out not to allow it; nothing was changed."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What was done to a pipeline."""

    why: str
    """What changed, in words, for the report."""
    undo: Callable[[], None]
    """Puts back all that was changed, globals included."""
    did_run: Callable[[], str | None] = lambda: None
    """Asked after the first real step: None, or why the technique did not really run."""


P = TypeVar("P", bound=Part)


class Technique(ABC, Generic[P]):
    """One optimization. Instances hold no state; what is applied lives in the Effect."""

    name: ClassVar[str]
    part: ClassVar[type[Any]]
    """The structure of its settings in a plan."""
    stage: ClassVar[Stage]
    rung: ClassVar[Rung]
    """The best rung that it can claim; it is held to this one."""
    answers: ClassVar[tuple[str, ...]]
    """Codes of the findings that it is an answer to."""
    about: ClassVar[str]
    """One sentence: what it does."""
    slow_to_prepare: ClassVar[bool] = False
    """Whether its first step takes long, as a compilation does; such are tried last."""

    def unavailable(self, environment: Environment) -> str | None:
        """Why this machine cannot run it; None where it can."""
        return None

    def unsuited(self, traits: Traits) -> str | None:
        """Why this model or data gives it nothing to do; None where there is something."""
        return None

    @abstractmethod
    def to_try(self, environment: Environment, traits: Traits) -> list[P]:
        """The settings worth a trial, the most promising first."""

    @abstractmethod
    def apply(self, pipeline: Pipeline, part: P) -> Effect:
        """Change the pipeline, or raise CannotApply and change nothing."""
