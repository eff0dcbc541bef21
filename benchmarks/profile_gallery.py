"""Profile a bundled workload and keep the report; the card is that of `hasten profile`.

On a machine without the repository's history, name the commit with --commit.
"""

import argparse

import msgspec
import torch
from rich.console import Console

from hasten.report.profile import profile_card
from hasten.tune.profile import profile
from results_file import write_results

COLUMNS = 100
"""As wide as the pages that show the card."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="?", default="gallery:bloom")
    parser.add_argument("--commit", default="")
    arguments = parser.parse_args()
    report = profile(
        arguments.task,
        recipe=None,
        trace=None,
        seed=0,
        tell=lambda line: print(line, flush=True),
    )
    Console(width=COLUMNS, highlight=False).print(profile_card(report))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = arguments.task.removeprefix("gallery:").replace("@", "-")
    figures = msgspec.to_builtins(report)
    figures["measurement"].pop("losses")
    write_results(f"profile-{name}-{device}", {"report": figures}, commit=arguments.commit)


if __name__ == "__main__":
    main()
