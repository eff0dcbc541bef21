"""How much faster is a second start, and how long does a hit take?

A start is a fresh Python that asks the cache for the table of gallery:bloom@full (100,000 persons),
for the UniFrac distances of gallery:microbiome@full (512 samples, 1,000 tips), or for these as a
function of the table of counts. The first finds an empty folder and builds, the second finds the
entry. Both are timed from the question to the answer, the
digests of code and inputs included, and then read to the last byte, which is timed apart. What
comes before, starting Python and importing, is the same for both and told beside it. Each pair is
repeated with a new folder. In the second process the question is asked again 200 times: as a whole,
with the digests, and as a hit by itself, when the key is known.

Exits with 1 where the second start is not 20 times as fast in the median of the rounds, or where
the median hit takes 1 ms or more. The worst of all is told too: on a busy machine that is when
somebody else had the core.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from results_file import RESULTS, write_results

LEAST_RATIO = 20.0
MOST_HIT_S = 1e-3
HITS = 200
REPEATED = ("hits_s", "calls_s")


def main() -> None:
    arguments = _parse()
    if arguments.child:
        print(json.dumps(start(arguments.child, arguments.folder, arguments.scale)))
        return
    figures: dict[str, Any] = {}
    for name in arguments.work:
        figures[name] = measure(name, arguments)
        print(name, json.dumps({key: figures[name][key] for key in ("ratio", "hit_s", "call_s")}))
    missed = [name for name, row in figures.items() if not row["bars_hold"]]
    write_results(
        "cache",
        {"rounds": arguments.rounds, "scale": arguments.scale, "missed": missed, **figures},
        commit=arguments.commit,
        folder=arguments.out,
    )
    sys.exit(1 if missed else 0)


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    rounds = []
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            first, second = (_in_fresh_process(name, folder, arguments.scale) for _ in range(2))
        if first["checksum"] != second["checksum"] or not first["built"] or second["built"]:
            raise SystemExit(f"{name}: the second start did not read what the first had built")
        rounds.append({"first": first, "second": second, "ratio": first["ask_s"] / second["ask_s"]})
    ratio = statistics.median(each["ratio"] for each in rounds)
    hit_s, call_s = (_summary([each["second"].pop(kind) for each in rounds]) for kind in REPEATED)
    return {
        "bars_hold": ratio >= LEAST_RATIO and hit_s["median"] < MOST_HIT_S,
        "ratio": round(ratio, 1),
        "hit_s": hit_s,
        "call_s": call_s,
        "rounds": rounds,
    }


def _summary(columns: list[list[float]]) -> dict[str, float]:
    times = [each for column in columns for each in column]
    return {"median": statistics.median(times), "worst": max(times), "count": len(times)}


def _in_fresh_process(name: str, folder: str, scale: float) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", name, "--folder", folder]
    began = time.perf_counter()
    ended = subprocess.run(
        [*command, "--scale", str(scale)], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(ended.stdout)
    return {"process_s": time.perf_counter() - began, **found}


def start(name: str, folder: Path, scale: float) -> dict[str, Any]:
    from cached_work import WORK, checksum
    from hasten.data import DatasetCache
    from hasten.data.cache.dataset_cache import read_entry
    from hasten.data.cache.folder import CacheFolder

    cache = DatasetCache(folder, limit="10GB")
    built = not list(folder.glob("data/*/*/manifest.json"))
    ask = WORK[name](cache, scale)
    began = time.perf_counter()
    result = ask()
    asked = time.perf_counter()
    total = checksum(result)
    read = time.perf_counter()
    found = {"built": built, "ask_s": asked - began, "read_s": read - asked, "checksum": total}
    if built:
        return found
    (entry,) = CacheFolder(folder).places()
    ways = (lambda: read_entry(CacheFolder(folder), entry.key), ask)
    repeated = ([_timed(way) for _ in range(HITS)] for way in ways)
    return {**found, **dict(zip(REPEATED, repeated, strict=True))}


def _timed(ask: Any) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the full sizes")
    parser.add_argument("--work", nargs="+", default=["bloom", "microbiome", "unifrac"])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
