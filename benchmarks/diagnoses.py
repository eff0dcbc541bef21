"""What does a profile say of the gallery's workloads, and is it what is known of them?

Each is profiled as it is and diagnosed, the transformers with attention written out too. What is
expected on one H200 at full size stands beside: the limit of the small networks, whose kernels are
too small for their launches; that of the recurrent one; and in the transformers a slow type, since
they are written in fp32, and attention that is not fused, where it is not.
"""

import argparse
from pathlib import Path
from typing import Any

import msgspec

from arms import workload
from hasten.tune.profile import profile
from results_file import RESULTS, write_results

BY_HAND = Path(__file__).with_name("by_hand.py")
EXPECTED = {
    "bloom": {"launch-bound"},
    "battery": {"recurrent"},
    "lensing": {"launch-bound"},
    "microbiome": {"slow-precision"},
    "gpt": {"slow-precision"},
    "microbiome-by-hand": {"slow-precision", "unfused-attention"},
    "gpt-by-hand": {"slow-precision", "unfused-attention"},
}
"""A limit, or findings among those that are shown."""
KEPT = (
    "elapsed_s",
    "limit",
    "why",
    "next",
    "bounds",
    "findings",
    "launches",
    "work",
    "ceilings",
    "notes",
    "measurement",
)


def main() -> None:
    arguments = _parse()
    workload.choose_device(arguments.device)
    figures: dict[str, Any] = {"size": arguments.size, "workloads": {}}
    for name in arguments.workloads.split(","):
        row = profiled(_task(name, arguments.size), arguments.seed)
        said = {row["limit"], *(finding["code"] for finding in row["findings"])}
        row["expected_on_h200_at_full_size"] = sorted(EXPECTED[name])
        row["as_expected"] = said >= EXPECTED[name]
        figures["workloads"][name] = row
        print(f"{name}: {row['limit']}, {row['why']} (as expected: {row['as_expected']})")
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


def _task(name: str, size: str) -> str:
    plain, by_hand, _ = name.partition("-by-hand")
    return f"{BY_HAND}:{plain}_{size}" if by_hand else f"gallery:{plain}@{size}"


def profiled(task: str, seed: int) -> dict[str, Any]:
    report = profile(task, recipe=None, trace=None, seed=seed, tell=lambda words: None)
    plain = msgspec.to_builtins(report)
    plain["measurement"].pop("losses")
    return {name: plain[name] for name in KEPT}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--workloads", default=",".join(EXPECTED))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
