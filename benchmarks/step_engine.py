"""How fast do steps run: a plain loop, Fabric, Accelerate, an expert's loop and Hasten's engine?

Each arm trains the same task from the same first weights in a process of its own. All are built
and warmed up at the same time, so that their warm-up times are those of a busy machine. One after
the other they record the losses of their first steps: arms with a loader draw the same order in
the first epoch (workers that live on draw another one later), the expert one of its own. Then
short blocks alternate, in random order within each round; whoever is not measured is stopped, and
before each block a loader's prefetched batches are used up. The ratio of two arms is the median
over rounds, with a block-bootstrap interval. The expert is the better of two variants. Absent
packages and failed arms are rows.

With --recipes the plans are those that tune has found, each in its folder
(``tune_gallery.py --keep``); without, plans written by hand: what the engine can do.

On a machine without the repository's history, name the commit with --commit.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from arms.process import ArmProcess
from arms.session import Session
from arms.workload import Setting, choose_device
from hasten.records.recipe import read_recipe
from results_file import RESULTS, write_results

WORKLOADS = ("bloom", "battery", "lensing", "microbiome", "gpt")
ARMS = ("naive", "fabric", "accelerate", "expert", "expert_graph", "ours")
PLACES = ("out", "commit", "recipes")
"""Arguments that say nothing of the measurement."""


def main() -> None:
    arguments = _parse()
    choose_device(arguments.device)
    settings = {key: each for key, each in vars(arguments).items() if key not in PLACES}
    found: dict[str, Any] = {}
    for workload in arguments.workloads:
        found[workload] = measure(workload, arguments)
        _print_table(workload, found[workload])
        # After each one: a time limit then loses nothing that was measured.
        figures = {"settings": settings, "workloads": found}
        write_results(_name(arguments), figures, commit=arguments.commit, folder=arguments.out)


def measure(workload: str, arguments: argparse.Namespace) -> dict[str, Any]:
    start = time.monotonic()
    processes = {arm: ArmProcess(_setting(arm, workload, arguments)) for arm in arguments.arms}
    try:
        session = Session(processes, seed=arguments.seed)
        session.prepare(arguments.prepare_limit)
        session.record_losses(arguments.loss_steps, arguments.prepare_limit)
        session.calibrate(arguments.block_seconds)
        prepared_s = time.monotonic() - start
        session.run_rounds(arguments.seconds)
        return {"prepared_s": round(prepared_s, 1), **session.finish()}
    finally:
        for process in processes.values():
            process.end()


def _setting(arm: str, workload: str, arguments: argparse.Namespace) -> Setting:
    return Setting(
        arm=arm,
        workload=workload,
        size=arguments.size,
        seed=arguments.seed,
        plan=_plan(workload, arguments),
    )


def _plan(workload: str, arguments: argparse.Namespace) -> dict[str, Any] | None:
    if arguments.recipes is None:
        return arguments.plan  # type: ignore[no-any-return]
    return read_recipe(arguments.recipes / workload / "recipe.toml").as_plan().parts


def _print_table(workload: str, found: dict[str, Any]) -> None:
    print(
        f"\n{workload}: {found['rounds']} rounds in {found['rounds_s']} s,"
        f" prepared in {found['prepared_s']} s; the expert is {found['expert']}"
    )
    for arm, row in found["arms"].items():
        if row["outcome"] != "measured":
            print(f"  {arm:13}{row['outcome']}: {row['why']}")
            continue
        peak = row["peak_allocated_bytes"]
        print(
            f"  {arm:13}{row['median_samples_per_s']:>12,.1f}/s"
            f"  times naive {_shown(row['times_naive'])}"
            f"  times expert {_shown(row['times_expert'])}"
            f"  loss {row['final_loss']:.5g}  warm-up {row['warm_up_s']:.1f} s"
            + (f"  peak {peak / 2**30:.2f} GiB" if peak is not None else "")
        )
        for each in row["notes"].get("applied", ()):
            print(f"    {each['technique']}: {each['outcome']}, {each['why']}")


def _shown(ratio: dict[str, Any] | None) -> str:
    if ratio is None:
        return f"{'-':26}"
    if ratio["low"] is None:
        return f"{ratio['ratio']:<26.3f}"
    return f"{ratio['ratio']:7.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]".ljust(26)


def _name(arguments: argparse.Namespace) -> str:
    """Two calls for different workloads write two files."""
    workloads = () if set(arguments.workloads) == set(WORKLOADS) else arguments.workloads
    sizes = () if arguments.size == "full" else (arguments.size,)
    what = "step-engine" if arguments.recipes is None else "tuned-arms"
    return "-".join((what, *workloads, *sizes, arguments.device))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--workloads", type=_names_of(WORKLOADS), default=list(WORKLOADS))
    add("--arms", type=_names_of(ARMS), default=list(ARMS))
    add("--size", choices=("small", "full"), default="full")
    add("--device", choices=("cuda", "cpu"), default="cuda")
    add("--seconds", type=float, default=60.0, help="of rounds, for each workload")
    add("--block-seconds", type=float, default=0.4)
    add("--loss-steps", type=int, default=200, help="first steps whose losses are kept")
    add(
        "--prepare-limit",
        type=float,
        default=300.0,
        help="seconds for building and warming up, and for the losses",
    )
    add("--seed", type=int, default=0)
    add("--plan", type=json.loads, help='JSON, such as {"fused_optimizer": {}}, for all workloads')
    add("--recipes", type=Path, help="folder of folders with a recipe each")
    add("--out", type=Path, default=RESULTS)
    add("--commit", default="")
    return parser.parse_args()


def _names_of(known: tuple[str, ...]) -> Any:
    def names(text: str) -> list[str]:
        unknown = set(text.split(",")) - set(known)
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}; known: {', '.join(known)}")
        return [name for name in known if name in text.split(",")]

    return names


if __name__ == "__main__":
    main()
