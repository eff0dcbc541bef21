"""The cards of ``bench``, ``prove`` and ``env``."""

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console, RenderableType

from hasten.records.applied import Applied
from hasten.records.parity import Parity, ParityFigure
from hasten.records.plan import NAIVE, Plan, Rung
from hasten.records.report import BenchReport, ProofReport
from hasten.records.verdict import Check
from hasten.report.environment import EnvironmentReport, TechniqueHere, environment_card
from hasten.report.verdicts import bench_card, proof_card
from specimens import CONFIRMATION, ENVIRONMENT, NUMERICS, SPEED, make_comparison

replace = msgspec.structs.replace

HOSTILE = "\x1b[31m[bold]x[/nothing]\n"
INERT = "?[31m[bold]x[/nothing]?"

BENCH = BenchReport(
    task="t",
    a="naive",
    b="basic",
    plan_a=NAIVE,
    plan_b=NAIVE,
    verdict="proven",
    regression=False,
    environment=ENVIRONMENT,
    control=make_comparison(),
    confirmation=CONFIRMATION,
    speed=SPEED,
)
PROOF = ProofReport(
    task="t",
    recipe="r.toml",
    verdict="proven",
    why="faster in fresh processes, and the same training",
    environment=ENVIRONMENT,
    differences=(),
    control=make_comparison(),
    confirmation=CONFIRMATION,
    speed=SPEED,
    numerics=NUMERICS,
)
MACHINE = EnvironmentReport(
    environment=ENVIRONMENT,
    fingerprint=ENVIRONMENT.fingerprint(),
    techniques=(
        TechniqueHere(name="fused", about="Uses one kernel.", rung=Rung.ROUNDING, unavailable=None),
        TechniqueHere(
            name="compile", about="Compiles.", rung=Rung.ROUNDING, unavailable="no compiler"
        ),
    ),
)


def show(card: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=160, highlight=False)
    console.print(card)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def bench(**fields: Any) -> str:
    return show(bench_card(replace(BENCH, **fields)))


@pytest.mark.parametrize(
    ("fields", "headline"),
    [
        ({"verdict": "proven"}, "PROVEN  basic is faster than naive"),
        ({"verdict": "refuted"}, "REFUTED  that basic is faster than naive"),
        ({"verdict": "not_proven"}, "NOT PROVEN  that basic is faster than naive"),
        (
            {"verdict": "refuted", "regression": True},
            "PROVEN  basic is slower than naive",
        ),
    ],
)
def test_a_bench_says_what_was_shown_and_its_figures(fields: dict[str, Any], headline: str) -> None:
    first, second, *more = bench(**fields).splitlines()
    assert first == headline
    assert "1.500x, 99 % interval 1.400x to 1.600x" in second
    assert "(10,000 -> 15,000 rows/s); noise here 1.020x" in second
    assert "Only speed was compared" in more[-1]


def test_a_bench_says_what_a_level_was_and_why_a_gain_is_not_proven() -> None:
    noisy = replace(BENCH.speed, noise_floor=1.45)
    text = bench(verdict="not_proven", speed=noisy, plan_b=Plan(parts={"compile": {}}))
    assert "  basic is compile" in text
    assert "Two identical runs differed by up to 1.450x here" in text


def test_a_bench_without_a_claim_says_why() -> None:
    failed = replace(CONFIRMATION, failure="a worker died")
    text = bench(verdict="not_proven", speed=None, confirmation=failed)
    assert text.strip() == "NOT PROVEN  basic against naive: a worker died"


def test_a_bench_of_a_technique_that_did_not_run_says_which() -> None:
    lost = Applied(technique="compile", outcome="fell_back", why="it could not compile")
    confirmation = replace(CONFIRMATION, applied=(*CONFIRMATION.applied, lost))
    text = bench(verdict="not_proven", speed=None, confirmation=confirmation)
    assert "basic against naive: compile: fell back (it could not compile)" in text


def test_a_proof_shows_its_checks_and_where_it_was_made() -> None:
    report = replace(PROOF, differences=("cpu: Old, here New",))
    lines = [line.strip() for line in show(proof_card(report)).splitlines()]
    assert lines[0] == "PROVEN  faster in fresh processes, and the same training"
    assert "start: proven, 12 digests equal before step 1" in lines
    assert "made on another machine: cpu: Old, here New" in lines


@pytest.mark.parametrize(
    ("verdict", "word"), [("not_proven", "NOT PROVEN"), ("refuted", "REFUTED")]
)
def test_a_proof_that_failed_says_so(verdict: str, word: str) -> None:
    report = replace(PROOF, verdict=verdict, why="gradients differ", speed=None)
    text = show(proof_card(report))
    assert text.startswith(f"{word}  gradients differ")
    assert "interval" not in text


def test_the_page_of_the_machine_says_what_each_technique_can_do() -> None:
    lines = [line.split() for line in show(environment_card(MACHINE)).splitlines() if line]
    assert ["cores", "1.5", "of", "8", "may", "be", "used", "by", "this", "process"] in lines
    assert ["memory", "8.0", "GiB"] in lines
    assert ["fingerprint", ENVIRONMENT.fingerprint()] in lines
    assert ["fused", "can", "rounding", "Uses", "one", "kernel."] in lines
    assert ["compile", "cannot", "rounding", "no", "compiler"] in lines


def test_a_machine_without_a_compiler_says_so() -> None:
    bare = replace(MACHINE, environment=replace(ENVIRONMENT, compiler=None))
    assert "none found on the path" in show(environment_card(bare))


def test_hostile_names_are_shown_inert_on_every_card() -> None:
    technique = TechniqueHere(name=HOSTILE, about=HOSTILE, rung=Rung.BITWISE, unavailable=None)
    machine = replace(ENVIRONMENT, cpu=HOSTILE, compiler=HOSTILE, versions={HOSTILE: HOSTILE})
    checks = (Check(name="start", verdict="proven", why=HOSTILE),)
    cards = [
        bench_card(replace(BENCH, a=HOSTILE, b=HOSTILE)),
        bench_card(replace(BENCH, speed=None, confirmation=replace(CONFIRMATION, failure=HOSTILE))),
        proof_card(
            replace(
                PROOF,
                why=HOSTILE,
                differences=(HOSTILE,),
                numerics=replace(NUMERICS, checks=checks),
            )
        ),
        environment_card(
            EnvironmentReport(environment=machine, fingerprint="0", techniques=(technique,))
        ),
    ]
    for card in cards:
        text = show(card)
        assert INERT in text
        assert all(line.isprintable() for line in text.split("\n"))


def test_a_proof_by_parity_shows_every_figure() -> None:
    figure = ParityFigure(
        name="evaluation loss",
        naive=0.52,
        difference=0.001,
        low=-0.002,
        high=0.004,
        margin=0.01,
        spread=0.02,
        likeness="equivalent",
    )
    parity = Parity(steps=128, error=0.05, figures=(figure,), pairs=())
    check = Check(name="parity", verdict="proven", why="4 seeds of 128 steps")
    card = show(proof_card(replace(PROOF, numerics=NUMERICS.with_check(check, parity))))
    assert "parity: proven, 4 seeds of 128 steps" in card
    assert "evaluation loss: 0.52, by the plan +0.001 (-0.002 to +0.004); margin 0.01" in card
