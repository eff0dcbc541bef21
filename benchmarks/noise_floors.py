"""How small a difference can be told on this machine?

Each workload is compared with itself in two fresh processes, for as long as ``hasten tune`` does it
before it tries anything. The *resolution* is the far end of the interval of their ratio: a smaller
difference could not have been seen. The *floor* is what they differed by, and 1 % at least. Bars
for the resolution, on an H200 at full size: 1 % for gpt, 3 % for the launch-bound ones.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

from arms import workload
from hasten.measure.lab import Lab
from hasten.records.plan import NAIVE
from hasten.tune.confirm import measure_noise, noise_floor
from results_file import RESULTS, write_results

BARS = {"gpt": 0.01, "bloom": 0.03, "lensing": 0.03}


def main() -> None:
    arguments = _parse()
    workload.choose_device(arguments.device)
    figures: dict[str, Any] = {"size": arguments.size, "workloads": {}}
    for name in arguments.workloads.split(","):
        task = f"gallery:{name}@{arguments.size}"
        controls = [_control(task, seed) for seed in range(arguments.runs)]
        found = [each["resolution"] for each in controls]
        row = {
            "bar": BARS.get(name),
            "median_resolution": statistics.median(found),
            "worst_resolution": max(found),
            "runs": controls,
        }
        figures["workloads"][name] = row
        print(f"{name:12}{row}", flush=True)
        write_results(
            f"noise-floors-{arguments.size}-{arguments.device}",
            figures,
            commit=arguments.commit,
            folder=arguments.out,
        )


def _control(task: str, seed: int) -> dict[str, Any]:
    with Lab(task, seed) as lab:
        found = measure_noise(lab, NAIVE, lambda words: None)
    return {
        "resolution": max(found.high, 1 / found.low) - 1,
        "floor": noise_floor(found) - 1,
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "rounds": len(found.rounds),
        "seconds": round(found.elapsed_s, 1),
        "disturbed_by": None if found.load is None else found.load.disturbance(),
    }


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--workloads", default=",".join(BARS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
