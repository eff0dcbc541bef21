"""What a tuning kept, as two files: the recipe that a run applies, the evidence behind it."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from hasten.errors import HastenError
from hasten.records.applied import Applied
from hasten.records.curves import Curves
from hasten.records.environment import Environment
from hasten.records.kinds import shown
from hasten.records.measurement import Memory
from hasten.records.plan import Plan, RawPart, Rung
from hasten.records.record import Record, digest_of, from_builtins, parse_toml
from hasten.records.target import ChangedTraining, TimeToTarget
from hasten.records.traits import Traits
from hasten.records.trial import Trial
from hasten.records.tuning import FASTER, Aim, Diagnosed, Spent, Worth
from hasten.records.verdict import (
    Comparison,
    Control,
    MemoryClaim,
    NumericsClaim,
    SpeedClaim,
    Verdict,
)

RECIPE_FORMAT = 1
LARGEST_RECIPE_BYTES = 1_000_000


class RecipeSpeed(Record, frozen=True, kw_only=True):
    verdict: Verdict
    ratio: float
    low: float
    high: float
    rows_per_s: float | None = None
    """With the plan, when it was proven. Recipes made before this field do not say."""


Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class RecipeNumerics(Record, frozen=True, kw_only=True):
    verdict: Verdict
    rung: Rung


class Recipe(Record, frozen=True, kw_only=True):
    """``recipe.toml``. A person may edit ``plan``; its claims are then of another one."""

    format: int
    task: str
    created: str
    hasten: str
    evidence_sha256: Sha256
    plan_sha256: Sha256 | None = None
    """Of the plan that was proven. Recipes made before this field do not say."""
    renewed: str | None = None
    """When a plan that a person had edited was proven: its claims are of then, and the evidence is
    of the plan before."""
    aim: Aim = FASTER
    """What the plan was made for, which ``hasten prove`` holds it to."""
    plan: dict[str, RawPart]
    changes_training: ChangedTraining | None = None
    """Where the plan is another training: what of it, and what that is worth."""
    speed: RecipeSpeed | None = None
    """Of the plan without what changes the training, as are the numerics; None where that is the
    naive one."""
    numerics: RecipeNumerics | None = None
    memory: MemoryClaim | None = None
    """Where the tuning was told to mind it."""
    environment: Environment

    def as_plan(self) -> Plan:
        return Plan(parts=self.plan)

    def is_edited(self) -> bool:
        """Whether its plan is known to be another than the one that was proven."""
        return self.plan_sha256 is not None and self.plan_sha256 != digest_of(self.as_plan())


class Confirmation(Record, frozen=True, kw_only=True):
    """Plan B against plan A, in pairs of fresh processes."""

    pairs: tuple[Comparison, ...]
    applied: tuple[Applied, ...]
    a_memory: Memory | None
    b_memory: Memory | None
    failure: str | None
    """Why a process did not finish; the pairs are then not enough for a claim."""
    begun_again: str = ""
    """Why one pair was, whose process ended unexpectedly; empty where none was."""


class Evidence(Record, frozen=True, kw_only=True):
    """``evidence.json``: everything that was measured, losers included."""

    format: int
    task: str
    created: str
    hasten: str
    outcome: Literal["recipe", "nothing_to_gain", "unproven"]
    verdict: Verdict
    why: str
    seed: int
    subject: str
    """The digest of what was tuned, and to what end."""
    environment: Environment
    traits: Traits
    aim: Aim = FASTER
    minutes: float
    """That the search was given."""
    diagnosed: tuple[Diagnosed, ...]
    """Where the time went: in the naive training first, then under plans that were kept, as far as
    there was time to look; last under the best."""
    control: Control
    trials: tuple[Trial, ...]
    plan: Plan
    worth: tuple[Worth, ...] = ()
    dropped: dict[str, str] = msgspec.field(default_factory=dict)
    """Parts that the search had kept and the plan has not, each with the reason."""
    cut_short: tuple[str, ...] = ()
    """Those of them that more time might have proven."""
    confirmation: Confirmation | None
    speed: SpeedClaim | None
    numerics: NumericsClaim | None
    curves: Curves | None = None
    """Where the proof trained nothing; else they are in its parity."""
    memory: MemoryClaim | None = None
    """Where the tuning was told to mind it."""
    larger_batch: tuple[Trial, ...] = ()
    """Larger batches on top of the plan, where that was allowed: judged by time to target alone."""
    spent: Spent
    proven_again: str = ""
    """When the search was made whose plan was proven again here; empty where this is that."""

    def ran_out_of_time(self) -> bool:
        """The search, or a proof by training."""
        unproven = self.numerics is not None and self.numerics.short_of_time()
        untried = any(each.outcome == "out_of_time" for each in self.trials)
        return untried or unproven or bool(self.cut_short)

    def has_more_to_try(self, minutes: float) -> bool:
        """Whether the tuning would have gone on, had it been given so many."""
        return minutes > self.minutes and self.ran_out_of_time()

    def changed(self) -> Trial | None:
        """What changes the training and was proven to be worth it; None where nothing was."""
        return next((each for each in self.larger_batch if each.outcome == "kept"), None)

    def sooner(self) -> TimeToTarget | None:
        changed = self.changed()
        return changed.target if changed else None

    def whole_plan(self) -> Plan:
        """With what changes the training, which ``plan`` is without."""
        changed = self.changed()
        return changed.candidate.plan_on(changed.on) if changed else self.plan

    def naive(self) -> Diagnosed:
        return self.diagnosed[0]

    def under_plan(self) -> Diagnosed | None:
        """Where the time goes now; None where that was not measured."""
        return next((each for each in self.diagnosed[1:] if each.plan == self.plan), None)

    def drawn_curves(self) -> Curves | None:
        """Of the trainings that proved the plan, else of those that were made to be drawn."""
        parity = self.numerics.parity if self.numerics else None
        return parity.curves() if parity else self.curves

    def break_even_rows(self) -> float | None:
        """Rows of training after which tuning and the longer warm-up are paid back; None where
        they never are."""
        if self.speed is None or self.speed.b_rows_per_s <= self.speed.a_rows_per_s:
            return None
        saved_s = 1 / self.speed.a_rows_per_s - 1 / self.speed.b_rows_per_s
        return (self.spent.total_s() + max(self.speed.warmup_extra_s, 0.0)) / saved_s


def read_recipe(path: Path) -> Recipe:
    """A recipe is data from anywhere: closed keys, a size limit, nothing in it is run."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_RECIPE_BYTES + 1)
        text = content.decode("utf-8-sig")  # some editors mark a file so
    except IsADirectoryError as error:
        what = f"The recipe {path} cannot be read: it is a folder."
        raise HastenError(what, fix=f"Give {path / 'recipe.toml'}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise HastenError(
            f"The recipe {path} cannot be read: {error}.",
            fix="Give the recipe.toml that hasten tune wrote.",
        ) from error
    if len(content) > LARGEST_RECIPE_BYTES:
        raise HastenError(
            f"{path} has more than {LARGEST_RECIPE_BYTES:,} bytes, which no recipe has.",
            fix="Give the recipe.toml that hasten tune wrote.",
        )
    raw = parse_toml(text, where=str(path))
    _refuse_other_formats(raw.get("format"), path)
    return from_builtins(raw, Recipe, where=str(path))


def _refuse_other_formats(written: Any, path: Path) -> None:
    """Asked before the keys are: another format has other ones."""
    if type(written) is not int or written == RECIPE_FORMAT:
        return  # what is no number at all is refused as other keys are
    fix = "Run hasten tune again."
    if written > RECIPE_FORMAT:
        fix = "A later Hasten wrote it: install that one, or run hasten tune again."
    raise HastenError(
        f"{path}: format = {shown(written)} is not known; this Hasten reads {RECIPE_FORMAT}.",
        fix=fix,
    )


def other_machine(path: str, differences: list[str], *, fix: str = "") -> HastenError:
    return HastenError(
        f"{path} was proven on another machine ({'; '.join(differences)}).",
        fix=fix
        or f"Tune again here; or, if `hasten prove TASK {path}` proves it,"
        " pass allow_other_machine=True.",
    )
