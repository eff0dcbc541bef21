"""What is slow, each with its place, its cost and the most that removing it could gain.

Their costs may overlap: launching the update is both a slow optimizer and launching. A technique
names the codes that it answers.
"""

from hasten.diagnose import thresholds
from hasten.diagnose.shares import Shares, saved_without
from hasten.records.environment import Device
from hasten.records.finding import MEMORY_PEAK, Finding, Place
from hasten.records.profile import ProfileParts
from hasten.records.traits import ModelTraits


def find(
    parts: ProfileParts,
    shares: Shares,
    model: ModelTraits,
    device: Device,
    *,
    task_place: Place | None,
    model_place: Place | None,
) -> list[Finding]:
    """The largest bound first."""
    in_model = model_place or task_place
    found = [
        *_of_the_loader(shares, task_place),
        _of_the_optimizer(parts, shares, task_place),
        _of_syncs(parts, shares, in_model),
        *_of_the_host(parts, shares, in_model),
        _of_the_kernel(parts, shares, device, in_model),
        *_of_the_model(parts, shares, model, in_model),
        *_of_ceilings(parts, shares, in_model),
        _of_memory(parts, device, in_model),
    ]
    return sorted((each for each in found if each), key=lambda each: -each.bound)


def _of_the_loader(shares: Shares, place: Place | None) -> list[Finding | None]:
    return [
        _finding(
            "data-wait",
            "waiting for the next batch",
            "Fetch whole batches at once, or load them while the model computes.",
            shares.loader - shares.transfer,
            thresholds.DATA_WAIT_SHARE,
            shares.step_s,
            place,
        ),
        _finding(
            "transfer-bound",
            "bringing batches to the device",
            "Copy the next batch from pinned memory while the model computes, or keep the data on "
            "the device.",
            shares.transfer,
            thresholds.TRANSFER_SHARE,
            shares.step_s,
            place,
        ),
    ]


def _of_the_optimizer(parts: ProfileParts, shares: Shares, place: Place | None) -> Finding | None:
    step = parts.measurement.typical_step()
    share = saved_without("optimizer", parts, step.optimizer_s / shares.step_s)
    return _finding(
        "slow-optimizer",
        "updating the weights",
        "Update all parameters in one fused kernel.",
        share,
        thresholds.OPTIMIZER_SHARE,
        shares.step_s,
        place,
    )


def _of_syncs(parts: ProfileParts, shares: Shares, place: Place | None) -> Finding | None:
    costliest = max(parts.syncs, key=lambda site: site.cost_s or 0.0, default=None)
    return _finding(
        "sync-bound",
        "idle because the host waits for results of the device",
        "Read figures some steps late, and keep decisions that need them off the device's path; "
        "while one wait is left, removing others gains nothing.",
        shares.syncs,
        thresholds.SYNC_SHARE,
        shares.step_s,
        costliest.place if costliest else place,
    )


def _of_the_host(parts: ProfileParts, shares: Shares, place: Place | None) -> list[Finding | None]:
    many = f"{parts.launches.per_step:.0f} " if parts.launches else ""
    return [
        _finding(
            "launch-bound",
            f"launching {many}operations that are too small to hide the next launch",
            "Capture the whole step as one graph, or compile the model into fewer kernels.",
            shares.launching,
            thresholds.IDLE_SHARE,
            shares.step_s,
            place,
        ),
        _finding(
            "host-bound",
            "in Python between the operations",
            "Move what the loop does in Python out of the step, or capture the step as one graph.",
            shares.in_python,
            thresholds.IDLE_SHARE,
            shares.step_s,
            place,
        ),
    ]


def _of_the_kernel(
    parts: ProfileParts, shares: Shares, device: Device, place: Place | None
) -> Finding | None:
    measured = parts.measurement
    clearing_s = min(measured.kernel_s, thresholds.FAULT_S * measured.page_faults)
    return _finding(
        "page-faults",
        f"in the operating system, on {measured.page_faults:,.0f} page faults",
        "Let the allocator keep memory from step to step.",
        min(clearing_s / shares.step_s, thresholds.MOST_CLEARING) if device.kind == "cpu" else 0.0,
        thresholds.KERNEL_SHARE,
        shares.step_s,
        place,
    )


def _of_the_model(
    parts: ProfileParts, shares: Shares, model: ModelTraits, place: Place | None
) -> list[Finding | None]:
    step = parts.measurement.typical_step()
    in_model = (step.forward_s + step.backward_s) / shares.step_s
    if step.graph_s:  # one graph has no phases
        in_model = shares.model
    # What its products take at best is left, however the rest is done.
    products = parts.work.share if parts.work else 0.0
    share = max(in_model - products, 0.0)
    by_hand = "hand_written" in model.attention
    recurrent = "recurrent" in model.families
    return [
        _finding(
            "eager-model",
            "on forward and backward work outside matrix products, one operation at a time",
            "Compile the model.",
            share,
            thresholds.MODEL_SHARE,
            shares.step_s,
            place,
        ),
        # What attention costs is not measured apart; the bound is all but the products.
        _finding(
            "unfused-attention",
            "in the model outside matrix products, and its attention is written by hand",
            "Call torch.nn.functional.scaled_dot_product_attention there, which never makes the "
            "matrix of all pairs.",
            share if by_hand else 0.0,
            thresholds.MODEL_SHARE,
            shares.step_s,
            model.hand_written_attention or place,
        ),
        _finding(
            "recurrent",
            "in recurrent layers, one time step after the other",
            "Use torch's own LSTM or GRU over whole sequences, begin states inside of it, and "
            "capture the step as one graph; more rows in a batch would cost little.",
            shares.model if recurrent else 0.0,
            thresholds.LIMIT_SHARE,
            shares.step_s,
            place,
        ),
    ]


def _of_ceilings(parts: ProfileParts, shares: Shares, place: Place | None) -> list[Finding | None]:
    work, ceilings = parts.work, parts.ceilings
    if work is None or ceilings is None or not shares.model:
        return []
    rates = ceilings.flops_per_s
    faster = rates[work.fastest] / rates[work.computed_in]
    products, moving = min(work.share / shares.model, 1.0), min(work.moved_share, shares.model)
    near = products >= thresholds.CEILING_SHARE
    slow_type = faster >= thresholds.FASTER_TYPE and work.share >= thresholds.PRODUCTS_SHARE
    return [
        _finding(
            "compute-bound",
            f"computing what {work.fastest} could save at best; the model runs at "
            f"{100 * products:.0f} % of the {work.computed_in} peak here",
            "Do less arithmetic, or use another number type or memory layout.",
            max(shares.model - work.share / faster, 0.0) if near else 0.0,
            thresholds.LIMIT_SHARE,
            shares.step_s,
            place,
        ),
        # Products alone become faster; how much else there is, is not measured apart.
        _finding(
            "slow-precision",
            f"computing in {work.computed_in} what {work.fastest}, {faster:.1f} times as fast "
            "here, could save",
            f"Compute products in {work.fastest}: by autocast, or for TF32 by torch's float32 "
            "matmul precision.",
            shares.model * (1 - 1 / faster) if slow_type else 0.0,
            thresholds.PRODUCTS_SHARE,
            shares.step_s,
            place,
        ),
        _finding(
            "memory-bound",
            "reading and writing memory for operations that compute little",
            "Compile the model, which joins such operations, or keep activations in fewer bits.",
            moving if moving >= thresholds.CEILING_SHARE * shares.model else 0.0,
            thresholds.LIMIT_SHARE,
            shares.step_s,
            place,
        ),
    ]


def _of_memory(parts: ProfileParts, device: Device, place: Place | None) -> Finding | None:
    peak = parts.measurement.memory.device_allocated_bytes
    if peak is None or peak < thresholds.MEMORY_PEAK_SHARE * device.memory_bytes:
        return None
    return Finding(
        code=MEMORY_PEAK,
        title=f"{100 * peak / device.memory_bytes:.0f} % of the device's memory is in use at once",
        advice="Recompute activations, or compute a batch in pieces.",
        place=place,
        cost_s=0.0,
        bound=1.0,
    )


def _finding(
    code: str,
    doing: str,
    advice: str,
    share: float,
    threshold: float,
    step_s: float,
    place: Place | None,
) -> Finding | None:
    if share < threshold:
        return None
    return Finding(
        code=code,
        title=f"{100 * share:.0f} % of a step is spent {doing}",
        advice=advice,
        place=place,
        cost_s=share * step_s,
        bound=1 / max(1 - share, 1e-9),
    )
