"""The cards of ``prove`` and ``env``."""

import io

import msgspec
import pytest
from rich.console import Console, RenderableType

from hasten.records.parity import Parity, ParityFigure
from hasten.records.plan import Rung
from hasten.records.verdict import Check, MemoryClaim
from hasten.report.bench import bench_card, gate_card, saved_card
from hasten.report.environment import EnvironmentReport, TechniqueHere, environment_card
from hasten.report.inference import inference_card
from hasten.report.verdicts import proof_card
from specimens import (
    BENCH,
    CONFIRMATION,
    ENVIRONMENT,
    GATE,
    INFERENCE,
    NUMERICS,
    PROOF,
    SAVED,
    SPEED,
)

replace = msgspec.structs.replace

HOSTILE = "\x1b[31m[bold]x[/nothing]\n"
INERT = "?[31m[bold]x[/nothing]?"

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


def test_a_proof_shows_its_checks_and_where_it_was_made() -> None:
    report = replace(PROOF, differences=("cpu: Old, here New",))
    lines = [line.strip() for line in show(proof_card(report)).splitlines()]
    assert lines[0] == "PROVEN  faster in fresh processes, and the same training"
    assert "start: proven, 12 digests equal before step 1" in lines
    assert "made on another machine: cpu: Old, here New" in lines


def test_a_proof_that_minds_memory_shows_the_peak() -> None:
    memory = MemoryClaim(verdict="proven", a_bytes=200, b_bytes=90, allowed_bytes=100)
    text = show(proof_card(replace(PROOF, memory=memory)))
    assert "peak of a step: 200 B -> 90 B, 100 B allowed" in text
    assert "peak of a step" not in show(proof_card(PROOF))


def test_what_else_the_machine_did_is_told() -> None:
    busy = replace(SPEED, disturbed_by="other programs kept 1.2 of 2 cores busy")
    for card in (proof_card(replace(PROOF, speed=busy)), bench_card(replace(BENCH, speed=busy))):
        assert "meanwhile, other programs kept 1.2 of 2 cores busy" in show(card)
    assert "meanwhile" not in show(bench_card(BENCH))


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
        saved_card(replace(SAVED, a=HOSTILE, b=HOSTILE, task=HOSTILE), HOSTILE),
        gate_card(replace(GATE, a=HOSTILE, b=HOSTILE)),
        inference_card(replace(INFERENCE, a=HOSTILE, b=HOSTILE)),
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
    assert (
        "evaluation loss: 0.52, the plan differs by +0.001 (-0.002 to +0.004); margin 0.01" in card
    )
