"""Tunings with much to tell, and hostile ones, made by hand."""

import math
import random

import msgspec

from hasten.records.curves import Curves, SeedCurve
from hasten.records.finding import Finding, Place
from hasten.records.measurement import Measurement, Memory, Phases
from hasten.records.parity import Parity, ParityFigure, SeedPair
from hasten.records.plan import NAIVE, Plan, RawPart, Rung
from hasten.records.recipe import Evidence
from hasten.records.trial import Outcome, Trial
from hasten.records.tuning import Diagnosed, Worth
from hasten.records.verdict import Check, NumericsClaim
from specimens import (
    CONFIRMATION,
    DIAGNOSED,
    FINDING,
    PROVEN,
    SPEED,
    make_candidate,
    make_comparison,
)

replace = msgspec.structs.replace

FINAL: dict[str, RawPart] = {"batched_loader": {}, "mixed_precision": {"dtype": "bfloat16"}}


def _trial(
    technique: str, outcome: Outcome, why: str, on: Plan, ratio: float | None, part: RawPart
) -> Trial:
    return Trial(
        candidate=replace(make_candidate(technique), part=part),
        on=on,
        outcome=outcome,
        why=why,
        comparison=make_comparison(ratio) if ratio else None,
    )


def _curve(seed: int, shift: float) -> SeedCurve:
    noise = random.Random(seed)
    losses = tuple(
        0.3 + math.exp(-at / 9) + 0.05 * noise.random() + shift * noise.random() for at in range(40)
    )
    return SeedCurve(losses=losses, figures={"training loss": losses[-1]})


PARITY = Parity(
    steps=400,
    error=0.05,
    figures=(
        ParityFigure(
            name="training loss",
            naive=0.3412,
            difference=0.0007,
            low=-0.0021,
            high=0.0035,
            margin=0.011,
            spread=0.0052,
            likeness="equivalent",
        ),
    ),
    pairs=tuple(
        SeedPair(seed=seed, naive=_curve(seed, 0.0), plan=_curve(seed, 0.01)) for seed in range(6)
    ),
)

CURVES = Curves(
    steps=400,
    seeds=(1, 2, 3),
    naive=tuple(_curve(seed, 0.0) for seed in (1, 2, 3)),
    plan=(_curve(1, 0.001),),
)
"""Of a plan whose proof trained nothing."""

WITH_LOADER = Plan(parts={"batched_loader": {}})
WITH_FUSED = WITH_LOADER.with_part("fused_optimizer", {"implementation": "fused"})
WITH_ALL = WITH_FUSED.with_part("mixed_precision", {"dtype": "bfloat16"})

UNDER_PLAN = Diagnosed(
    plan=Plan(parts=FINAL),
    measurement=Measurement(
        steps=(
            Phases(
                data_wait_s=0.0002,
                transfer_s=0.0,
                forward_s=0.0016,
                backward_s=0.0013,
                optimizer_s=0.0008,
                host_s=0.0001,
            ),
        ),
        rows=(64,),
        losses=(0.7,),
        first_step_s=0.1,
        memory=Memory(host_bytes=250 << 20),
    ),
    limit="compute-bound",
    why="the device computes 81 % of the time",
    findings=(),
    peak_bytes=3 << 20,
)

RICH = replace(
    PROVEN,
    task="train.py:make_task",
    why="faster in fresh processes, and trains as well",
    diagnosed=(
        replace(
            DIAGNOSED,
            findings=(
                FINDING,
                Finding(
                    code="slow-optimizer",
                    title="10 % of a step is spent updating the weights",
                    advice="Update all parameters in one fused kernel.",
                    place=None,
                    cost_s=0.001,
                    bound=1.11,
                ),
            ),
        ),
        UNDER_PLAN,
    ),
    trials=(
        _trial("batched_loader", "kept", "equal to the bit", NAIVE, 1.62, {}),
        _trial("compile", "failed", "RuntimeError: no compiler", WITH_LOADER, None, {}),
        _trial("channels_last", "not_faster", "at most 0.995x", WITH_LOADER, 0.98, {}),
        _trial(
            "fused_optimizer",
            "kept",
            "4.1 % of what rounding may cause",
            WITH_LOADER,
            1.05,
            {"implementation": "fused"},
        ),
        _trial(
            "mixed_precision",
            "kept",
            "faster; whether it trains as well is proven at the end",
            WITH_FUSED,
            1.44,
            {"dtype": "bfloat16"},
        ),
        _trial("matmul_precision", "refuted", "gradients of layer.3 differ", WITH_ALL, 1.2, {}),
        _trial("whole_step_graph", "not_tried", "there is no CUDA device", WITH_ALL, None, {}),
        _trial("late_readings", "below_noise", "at most 1.004x", WITH_ALL, None, {}),
        _trial("loader_workers", "out_of_time", "the time was spent", WITH_ALL, None, {}),
    ),
    plan=Plan(parts=FINAL),
    worth=(
        Worth(technique="batched_loader", ratio=1.71, low=1.66, high=1.75),
        Worth(
            technique="mixed_precision", ratio=1.43, low=1.4, high=1.47, lost=("fused_attention",)
        ),
    ),
    dropped={"fused_optimizer": "the plan is faster without it, once the others are there"},
    confirmation=CONFIRMATION,
    speed=replace(SPEED, ratio=2.39, low=2.28, high=2.51, b_rows_per_s=23_900.0),
    numerics=NumericsClaim(
        rung=Rung.PARITY,
        verdict="proven",
        checks=(
            Check(name="start", verdict="proven", why="12 digests equal before step 1"),
            Check(name="parity", verdict="proven", why="6 seeds of 400 steps: equivalent"),
        ),
        parity=PARITY,
    ),
)
"""Several kept trials, of which one was dropped later, and another precision."""

NASTY = "<script>alert(1)</script>\"onload='x' ]]> -->\n| `x` **b** ${{7*7}} @all\x1b[2J</style>"


def hostile(evidence: Evidence) -> Evidence:
    """Every text that comes from the user's code or from a file, as bad as it can be."""
    finding = Finding(
        code=NASTY,
        title=NASTY,
        advice=NASTY,
        place=Place(path=NASTY, line=1),
        cost_s=0.001,
        bound=2.0,
    )
    rare = {NASTY: {NASTY: NASTY}}
    naive = replace(DIAGNOSED, why=NASTY, findings=(finding,))
    checks = (Check(name="parity", verdict="proven", why=NASTY),)
    figure = replace(PARITY.figures[0], name=NASTY)
    environment = replace(
        evidence.environment, cpu=NASTY, system=NASTY, compiler=NASTY, versions={NASTY: NASTY}
    )
    return replace(
        evidence,
        task=NASTY,
        created=NASTY,
        hasten=NASTY,
        why=NASTY,
        subject=NASTY,
        proven_again=NASTY,
        environment=environment,
        diagnosed=(naive, replace(UNDER_PLAN, plan=Plan(parts=rare), why=NASTY)),
        trials=tuple(
            _trial(NASTY, outcome, NASTY, Plan(parts=rare), 1.5, {NASTY: NASTY})
            for outcome in ("kept", "failed", "not_tried")
        ),
        plan=Plan(parts=rare),
        worth=(Worth(technique=NASTY, ratio=1.0, low=1.0, high=1.0, failure=NASTY),),
        dropped={NASTY: NASTY},
        curves=evidence.curves and replace(evidence.curves, failure=NASTY),
        speed=evidence.speed and replace(evidence.speed, disturbed_by=NASTY),
        numerics=evidence.numerics
        and replace(evidence.numerics, checks=checks, parity=replace(PARITY, figures=(figure,))),
    )
