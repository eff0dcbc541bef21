"""How long does `hasten --help` take, and `import hasten`? Compared with starting Python at all."""

import random
import statistics
import subprocess
import sys
import time

from results_file import write_results

ROUNDS = 30
COMMANDS = {
    "python": [sys.executable, "-c", "pass"],
    "import_hasten": [sys.executable, "-c", "import hasten"],
    "hasten_help": [sys.executable, "-m", "hasten", "--help"],
}


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    order = random.Random(0)
    for _ in range(ROUNDS):
        for name in order.sample(list(COMMANDS), len(COMMANDS)):
            start = time.perf_counter()
            subprocess.run(COMMANDS[name], check=True, capture_output=True)
            times[name].append(time.perf_counter() - start)
    figures = {
        name: {
            "median_s": round(statistics.median(column), 4),
            "worst_s": round(max(column), 4),
        }
        for name, column in times.items()
    }
    print(figures)
    write_results("startup", {"rounds": ROUNDS, **figures})


if __name__ == "__main__":
    main()
