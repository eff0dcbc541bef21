"""What does a profile say of the gallery's workloads, and is it what is known of them?

Each is profiled as it is and diagnosed. What is expected on one H200 at full size stands beside:
the limit of the small networks, whose kernels are too small for their launches; that of the
recurrent one; and a slow type in the transformers, which are written in fp32.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import msgspec

from arms import workload
from hasten.diagnose.diagnose import diagnose
from hasten.measure.lab import Lab
from results_file import RESULTS, write_results

EXPECTED_LIMITS = {"bloom": "launch-bound", "lensing": "launch-bound", "battery": "recurrent"}
EXPECTED_FINDINGS = {"microbiome": "slow-precision", "gpt": "slow-precision"}
WORKLOADS = ("bloom", "battery", "lensing", "microbiome", "gpt")


def main() -> None:
    arguments = _parse()
    workload.choose_device(arguments.device)
    figures: dict[str, Any] = {"size": arguments.size, "workloads": {}}
    for name in arguments.workloads.split(","):
        row = profile(f"gallery:{name}@{arguments.size}", arguments.seed)
        row["expected_on_h200_at_full_size"] = EXPECTED_LIMITS.get(name) or EXPECTED_FINDINGS[name]
        figures["workloads"][name] = row
        print(f"{name}: {row['limit']}, {row['why']}")
        for finding in row["findings"]:
            print(f"  {finding['code']:18}{finding['bound']:8.2f}x  {finding['title']}")
        for note in row["notes"]:
            print(f"  note: {note}")
        write_results(
            f"diagnoses-{arguments.size}-{arguments.device}",
            figures,
            commit=arguments.commit,
            folder=arguments.out,
        )


def profile(task: str, seed: int) -> dict[str, Any]:
    start = time.monotonic()
    with Lab(task, seed) as lab:
        described = lab.describe()
        parts = lab.profile()
    found = diagnose(
        parts,
        described.traits.model,
        described.environment.device,
        task_place=described.task_place,
        model_place=described.model_place,
    )
    plain = msgspec.to_builtins(parts)
    plain["measurement"].pop("losses")
    return {
        "elapsed_s": round(time.monotonic() - start, 1),
        **msgspec.to_builtins(found),
        **{name: plain[name] for name in ("launches", "work", "ceilings", "notes", "measurement")},
    }


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
