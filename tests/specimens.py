"""Records made by hand, whole and plausible, for tests to change one thing at a time."""

import msgspec

from hasten.records.applied import Applied
from hasten.records.environment import Device, Environment
from hasten.records.finding import Finding, Place
from hasten.records.inference import InferenceReport, InferenceSize, Latency
from hasten.records.measurement import Measurement, Memory, Phases
from hasten.records.plan import NAIVE, Plan, RawPart, Rung
from hasten.records.profile import (
    Allocation,
    Bound,
    Ceilings,
    Launches,
    PeakMemory,
    ProfileReport,
    SyncSite,
    Work,
)
from hasten.records.recipe import (
    RECIPE_FORMAT,
    Confirmation,
    Evidence,
    Recipe,
    RecipeNumerics,
    RecipeSpeed,
)
from hasten.records.report import BenchReport, ProofReport
from hasten.records.saved_bench import (
    REFERENCE,
    REFERENCE_ARM,
    SAVED_FORMAT,
    Change,
    GateReport,
    SavedBench,
)
from hasten.records.scan import CodeCost, CodeFinding
from hasten.records.training import (
    CheckpointEvent,
    EvaluationEvent,
    NoteEvent,
    RecipeClaim,
    StepEvent,
    TrainingSummary,
)
from hasten.records.traits import DataTraits, ModelTraits, OptimizerTraits, Traits
from hasten.records.trial import Candidate, Outcome, Trial
from hasten.records.tuning import Diagnosed, Spent
from hasten.records.verdict import Check, Comparison, Control, NumericsClaim, Round, SpeedClaim

ENVIRONMENT = Environment(
    device=Device(kind="cpu", name="Some CPU (AVX2)", count=1, memory_bytes=8 << 30),
    cpu="Some CPU (AVX2)",
    cores_allowed=1.5,
    cores_present=8,
    threads=4,
    memory_bytes=8 << 30,
    shared_memory_bytes=64 << 20,
    system="Linux x86_64",
    compiler="/usr/bin/g++",
    versions={"python": "3.11.7", "hasten": "0.1.0", "torch": "2.13.0", "numpy": "2.4.6"},
)

TRAITS = Traits(
    model=ModelTraits(
        name="Net",
        parameters=10,
        parameter_bytes=40,
        families=("linear", "dropout"),
        repeated_blocks=(),
    ),
    data=DataTraits(
        kind="tensors",
        rows=4096,
        batch_size=64,
        workers=0,
        default_collate=True,
        draws_random=None,
    ),
    optimizers=(OptimizerTraits(name="AdamW", implementation="loop", can_fuse=True),),
    loss_reduction="mean",
)

PARTS: dict[str, RawPart] = {"batched_loader": {}, "compile": {"mode": "default"}}

RECIPE = Recipe(
    format=RECIPE_FORMAT,
    task="train.py:make_task",
    created="2026-01-02T03:04:05+00:00",
    hasten="0.1.0",
    evidence_sha256="0" * 64,
    plan=PARTS,
    speed=RecipeSpeed(verdict="proven", ratio=1.5, low=1.4, high=1.6),
    numerics=RecipeNumerics(verdict="proven", rung=Rung.ROUNDING),
    environment=ENVIRONMENT,
)

FINDING = Finding(
    code="data-wait",
    title="40 % of a step is spent waiting for the next batch",
    advice="Fetch whole batches at once.",
    place=Place(path="train.py", line=12),
    cost_s=0.004,
    bound=1.667,
)

SPEED = SpeedClaim(
    verdict="proven",
    ratio=1.5,
    low=1.4,
    high=1.6,
    noise_floor=1.02,
    a_rows_per_s=10_000.0,
    b_rows_per_s=15_000.0,
    warmup_extra_s=3.0,
    break_even_rows=90_000.0,
)

NUMERICS = NumericsClaim(
    rung=Rung.ROUNDING,
    verdict="proven",
    checks=(
        Check(name="start", verdict="proven", why="12 digests equal before step 1"),
        Check(name="rounding", verdict="proven", why="largest difference 0.3 of what is allowed"),
    ),
)


def make_comparison(ratio: float = 1.0) -> Comparison:
    return Comparison(
        ratio=ratio,
        low=0.99 * ratio,
        high=1.01 * ratio,
        confidence=0.99,
        margin=0.01,
        decision="faster" if ratio > 1.03 else "same",
        rounds=(Round(first="a", a_s=1e-4, b_s=1e-4 / ratio),) * 20,
        elapsed_s=4.0,
        a_warmup_s=0.5,
        b_warmup_s=3.5,
    )


CONTROL = Control(runs=(make_comparison(),))


def make_trial(technique: str, outcome: Outcome = "kept", why: str = "equal to the bit") -> Trial:
    comparison = make_comparison(1.5) if outcome == "kept" else None
    return Trial(
        candidate=make_candidate(technique), outcome=outcome, why=why, comparison=comparison
    )


def make_candidate(technique: str) -> Candidate:
    return Candidate(
        technique=technique,
        part={},
        rung=Rung.BITWISE,
        finding="data-wait",
        bound=1.667,
    )


CONFIRMATION = Confirmation(
    pairs=(make_comparison(1.5),) * 2,
    applied=(Applied(technique="compile", outcome="done", why="1 graph"),),
    a_memory=Memory(host_bytes=300 << 20),
    b_memory=Memory(host_bytes=200 << 20),
    failure=None,
)

BENCH = BenchReport(
    task="t",
    a="naive",
    b="basic",
    plan_a=NAIVE,
    plan_b=NAIVE,
    verdict="proven",
    outcome="faster",
    regression=False,
    environment=ENVIRONMENT,
    control=CONTROL,
    confirmation=CONFIRMATION,
    speed=SPEED,
    batch_size=64,
)

PROOF = ProofReport(
    task=RECIPE.task,
    recipe="recipe.toml",
    verdict="proven",
    why="faster in fresh processes, and the same training",
    environment=ENVIRONMENT,
    differences=(),
    control=CONTROL,
    confirmation=CONFIRMATION,
    speed=SPEED,
    numerics=NUMERICS,
)

SAVED = SavedBench(
    format=SAVED_FORMAT,
    reference=REFERENCE,
    created="2026-01-02T03:04:05+00:00",
    hasten="0.1.0",
    task="train.py:make_task",
    a=REFERENCE_ARM,
    b="naive",
    plan_a=NAIVE,
    plan_b=NAIVE,
    seed=0,
    environment=ENVIRONMENT,
    pairs=(make_comparison(2.0),) * 6,
    b_memory=Memory(host_bytes=300 << 20),
)

GATE = GateReport(
    task="train.py:make_task",
    a=REFERENCE_ARM,
    b="naive",
    file="bench.json",
    verdict="refuted",
    regression=True,
    change=Change(times=1.1, low=1.06, high=1.14, confidence=0.95, margin=0.03, decision="slower"),
    environment=ENVIRONMENT,
    pairs=(make_comparison(1.8),) * 3,
    saved_memory=Memory(host_bytes=300 << 20),
    b_memory=Memory(host_bytes=310 << 20),
)

INFERENCE = InferenceReport(
    task="t",
    a="naive",
    b="advanced",
    plan_a=NAIVE,
    plan_b=Plan(parts={"compile": {}}),
    verdict="proven",
    regression=False,
    with_loss=False,
    environment=ENVIRONMENT,
    sizes=(
        InferenceSize(
            rows=1,
            a=Latency(median_s=2e-3, p95_s=3e-3, p99_s=4e-3, calls=500),
            b=Latency(median_s=1e-3, p95_s=1.5e-3, p99_s=2e-3, calls=1000),
            outcome="faster",
            control=CONTROL,
            confirmation=CONFIRMATION,
            speed=SPEED,
        ),
    ),
)

CODE = (
    CodeCost(
        finding=CodeFinding(
            code="HST201",
            name="item-in-hot-loop",
            path="train.py",
            line=41,
            column=16,
            end_line=41,
            end_column=27,
            severity="medium",
            message="`loss.item()` waits for the device",
            why="Reading a number from the device waits.",
            fix=None,
            loop=None,
        ),
        cost_s=0.0021,
        held_bytes=None,
    ),
)

DIAGNOSED = Diagnosed(
    plan=NAIVE,
    measurement=Measurement(
        steps=(
            Phases(
                data_wait_s=0.004,
                transfer_s=0.0,
                forward_s=0.003,
                backward_s=0.002,
                optimizer_s=0.001,
            ),
        ),
        rows=(64,),
        losses=(0.7,),
        first_step_s=0.1,
        memory=Memory(host_bytes=300 << 20),
    ),
    limit="input-bound",
    why="40 % of a step is spent on data",
    findings=(FINDING,),
    code=CODE,
    peak_bytes=5 << 20,
)

PROVEN = Evidence(
    format=RECIPE_FORMAT,
    task="train.py:make_task",
    created="2026-01-02T03:04:05+00:00",
    hasten="0.1.0",
    outcome="recipe",
    verdict="proven",
    why="faster in fresh processes, and the same training",
    seed=0,
    environment=ENVIRONMENT,
    traits=TRAITS,
    subject="5" * 64,
    minutes=10.0,
    diagnosed=(DIAGNOSED,),
    control=CONTROL,
    trials=(
        make_trial("batched_loader"),
        make_trial("compile", "refuted", "gradients 1 of weight differs"),
        make_trial("fused_optimizer", "not_tried", "AdamW is fused already"),
    ),
    plan=Plan(parts=PARTS),
    confirmation=CONFIRMATION,
    speed=SPEED,
    numerics=NUMERICS,
    spent=Spent(measuring_s=40.0, search_s=50.0, confirmation_s=30.0, proof_s=10.0),
)


def with_findings(evidence: Evidence, *findings: Finding) -> Evidence:
    found = msgspec.structs.replace(DIAGNOSED, findings=findings)
    return msgspec.structs.replace(evidence, diagnosed=(found,))


NOTHING_TO_GAIN = msgspec.structs.replace(
    PROVEN,
    outcome="nothing_to_gain",
    verdict="not_proven",
    why="no change that was tried made the training faster",
    trials=(make_trial("compile", "not_faster", "at most 1.004x"),),
    plan=NAIVE,
    confirmation=None,
    speed=None,
    numerics=None,
)

UNPROVEN = msgspec.structs.replace(
    PROVEN,
    outcome="unproven",
    verdict="not_proven",
    why="fresh processes gave 0.990x to 1.500x, and noise here is 1.020x",
    speed=msgspec.structs.replace(SPEED, verdict="not_proven", low=0.99),
)

STEP_EVENT = StepEvent(
    step=50,
    epoch=0,
    elapsed_s=2.0,
    loss=0.6931,
    gradient_norm=None,
    learning_rate=1e-3,
    scale=None,
    rows_per_s=12_345.0,
    data_wait=0.03,
    memory=Memory(host_bytes=361 << 20),
)

EVALUATION_EVENT = EvaluationEvent(
    step=64, epoch=1, elapsed_s=3.0, took_s=0.25, metrics={"loss": 0.5, "dice": 0.75}
)

CHECKPOINT_EVENT = CheckpointEvent(
    step=64, elapsed_s=3.5, path="out/step-64", healthy=True, stalled_s=0.012
)

NOTE_EVENT = NoteEvent(step=64, elapsed_s=4.0, words="compile fell back")

SUMMARY = TrainingSummary(
    task="train.py:make_task",
    plan=PARTS,
    outcome="done",
    why="all 10 epochs are done",
    signal=None,
    step=640,
    epoch=10,
    resumed_from=None,
    rows=40_960,
    elapsed_s=30.0,
    rows_per_s=14_550.0,
    data_wait=0.034,
    loss=0.123,
    metrics={"loss": 0.2, "dice": 0.91},
    memory=Memory(host_bytes=361 << 20),
    applied=(
        Applied(technique="batched_loader", outcome="done", why="whole batches"),
        Applied(technique="compile", outcome="fell_back", why="no compiler"),
    ),
    claim=RecipeClaim(path="recipe.toml", ratio=1.5, rows_per_s=15_000.0),
    checkpoint="out/step-640",
    healthy=True,
    log="out/events.jsonl",
    notes=("compile fell back",),
)

PEAK_MEMORY = PeakMemory(
    peak_bytes=100 << 20,
    parameters_bytes=10 << 20,
    gradients_bytes=10 << 20,
    optimizer_bytes=20 << 20,
    activations_bytes=57 << 20,
    other_bytes=3 << 20,
    largest=(
        Allocation(
            place=Place(path="model.py", line=24), code="return self.layers(x)", held_bytes=48 << 20
        ),
        Allocation(place=None, code="the optimizer's update", held_bytes=1 << 20),
    ),
)

PROFILE = ProfileReport(
    task="train.py:make_task",
    plan=NAIVE,
    limit="launch-bound",
    why="the device computes 23 % of the time",
    next=("hasten tune train.py:make_task", "Capture the whole step in one CUDA graph."),
    environment=msgspec.structs.replace(
        ENVIRONMENT, device=Device(kind="cuda", name="Some GPU", count=1, memory_bytes=80 << 30)
    ),
    traits=TRAITS,
    measurement=Measurement(
        steps=(
            Phases(
                data_wait_s=0.004,
                transfer_s=0.000_05,
                forward_s=0.003,
                backward_s=0.002,
                optimizer_s=0.000_95,
            ),
        ),
        rows=(64,),
        losses=(0.7,),
        first_step_s=0.1,
        memory=Memory(host_bytes=300 << 20),
    ),
    syncs=(
        SyncSite(
            place=Place(path="train.py", line=41),
            kind="item",
            code="    running += loss.item()",
            per_step=1.0,
            cost_s=0.0021,
        ),
    ),
    launches=Launches(
        per_step=412.0,
        device_s=0.0023,
        step_s=0.01,
        slowest={"sgemm_128x64": 0.0008, "vectorized_elementwise_kernel": 0.0004},
    ),
    ceilings=Ceilings(
        flops_per_s={"fp32": 5.0e13, "tf32": 3.5e14, "bf16": 7.0e14},
        bytes_per_s=4.0e12,
        launch_s=3e-6,
    ),
    work=Work(
        flops=2.5e9,
        flops_per_s=2.5e11,
        computed_in="fp32",
        share=0.005,
        fastest="bf16",
        moved_bytes=4.0e9,
        moved_share=0.1,
    ),
    memory=PEAK_MEMORY,
    bounds=(
        Bound(
            without="loader",
            ratio=1.31,
            low=1.28,
            high=1.35,
            how="measured with one batch given again and again",
        ),
    ),
    findings=(FINDING,),
    code=CODE,
    notes=("the arithmetic of one operation was not counted: aten::odd",),
    trace=None,
    elapsed_s=31.0,
)
