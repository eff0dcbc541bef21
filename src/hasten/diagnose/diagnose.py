"""Why a step is slow."""

from hasten.diagnose.thresholds import DATA_WAIT_SHARE, MODEL_SHARE, OPTIMIZER_SHARE
from hasten.records.finding import Finding, Place
from hasten.records.measurement import Measurement, Phases
from hasten.records.traits import ModelTraits


def diagnose(
    measurement: Measurement,
    model: ModelTraits,
    *,
    task_place: Place | None,
    model_place: Place | None,
) -> list[Finding]:
    """Findings of a measured run, the largest bound first."""
    step = typical_step(measurement)
    model_s = step.forward_s + step.backward_s
    found = [
        _finding(
            step,
            "data-wait",
            DATA_WAIT_SHARE,
            step.data_wait_s,
            "waiting for the next batch",
            "Fetch whole batches at once, or load them while the model computes.",
            task_place,
        ),
        _finding(
            step,
            "slow-optimizer",
            OPTIMIZER_SHARE,
            step.optimizer_s,
            "updating the weights",
            "Update all parameters in one fused kernel.",
            task_place,
        ),
        _finding(
            step,
            "eager-model",
            MODEL_SHARE,
            model_s,
            "forward and backward, operation by operation",
            "Compile the model.",
            model_place or task_place,
        ),
        # What attention costs is not measured apart; the bound is all that the model takes.
        _finding(
            step,
            "unfused-attention",
            MODEL_SHARE,
            model_s if "hand_written" in model.attention else 0.0,
            "in the model, and its attention is written by hand",
            "Call torch.nn.functional.scaled_dot_product_attention there, which never makes the "
            "matrix of all pairs.",
            model.hand_written_attention or model_place or task_place,
        ),
    ]
    return sorted((each for each in found if each), key=lambda each: -each.bound)


def typical_step(measurement: Measurement) -> Phases:
    return measurement.typical_step()


def _finding(
    step: Phases,
    code: str,
    threshold: float,
    cost_s: float,
    doing: str,
    advice: str,
    place: Place | None,
) -> Finding | None:
    total = step.total_s()
    share = cost_s / total if total else 0.0
    if share < threshold:
        return None
    return Finding(
        code=code,
        title=f"{100 * share:.0f} % of a step is spent {doing}",
        advice=advice,
        place=place,
        cost_s=cost_s,
        bound=1 / max(1 - share, 1e-9),
    )
