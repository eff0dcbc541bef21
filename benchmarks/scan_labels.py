"""How much of what readers labelled does the scanner find, and how much else does it say?

    python benchmarks/scan_labels.py --half building --sources FOLDER [--misses] [--extras]

FOLDER holds the unpacked source packages; what is missing there is fetched from PyPI.
"""

import argparse
import hashlib
import io
import json
import math
import tarfile
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hasten.scan.scan import scan
from results_file import write_results

LABELS = Path(__file__).parent / "labels"
NEAR = 2
"""Lines between a finding and a label that are about the same thing."""
PYPI = "https://pypi.org/simple"


@dataclass
class Tally:
    labels: int = 0
    found: int = 0
    findings: int = 0
    near: int = 0
    look_alikes: int = 0
    flagged: int = 0
    families: Counter[str] = field(default_factory=Counter)
    found_families: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    near_rules: Counter[str] = field(default_factory=Counter)
    flagged_rules: Counter[str] = field(default_factory=Counter)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=["building", "practice", "fresh", "final"], required=True)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--package", help="only this one")
    parser.add_argument("--rule", default="", help="only codes that begin so")
    parser.add_argument("--misses", action="store_true", help="show labels that were not found")
    parser.add_argument("--extras", action="store_true", help="show findings far from any label")
    parser.add_argument("--flagged", action="store_true", help="show look-alikes that were found")
    parser.add_argument("--write", action="store_true", help="write a file of results")
    options = parser.parse_args()
    tally = Tally()
    for path in sorted((LABELS / options.half).glob("*.json")):
        labels = json.loads(path.read_text())
        if options.package in (None, labels["package"]):
            judge(labels, source_of(labels, options.sources), tally, options)
    report(tally)
    if options.write:
        write_results(f"scan-labels-{options.half}", summary(tally))


def source_of(labels: dict[str, Any], sources: Path) -> Path:
    folder = sources / labels["sdist"].removesuffix(".tar.gz")
    if not folder.exists():
        with urllib.request.urlopen(f"{PYPI}/{labels['package']}/") as page:
            links = page.read().decode().split('href="')[1:]
        link = next(each.split('"')[0] for each in links if labels["sdist_sha256"] in each)
        if link.startswith("/"):
            link = f"https://files.pythonhosted.org/{link.removeprefix('/packages/')}"
        with urllib.request.urlopen(link.partition("#")[0]) as reply:
            content = reply.read()
        if hashlib.sha256(content).hexdigest() != labels["sdist_sha256"]:
            raise SystemExit(f"{link} is not the package that was labelled")
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(sources, filter="data")
    for name, digest in labels["files"].items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            raise SystemExit(f"{folder / name} is not the file that was labelled")
    return folder


def judge(labels: dict[str, Any], folder: Path, tally: Tally, options: argparse.Namespace) -> None:
    findings: dict[str, list[Any]] = {name: [] for name in labels["files"]}
    for each in scan([folder]).findings:
        name = str(Path(each.path).resolve().relative_to(folder.resolve()))
        if name in findings and each.code.startswith(options.rule):
            findings[name].append(each)
    by_kind: dict[str, dict[str, list[Any]]] = {}
    for kind in ("bottlenecks", "look_alikes", "disputed"):
        by_kind[kind] = {name: [] for name in labels["files"]}
        for label in labels[kind]:
            by_kind[kind][label["file"]].append(label)
    for name, found in findings.items():
        text = (folder / name).read_text(encoding="utf-8").splitlines()
        for label in by_kind["bottlenecks"][name]:
            tally.labels += 1
            tally.families[label["family"]] += 1
            if any(is_near(each, label["line"]) for each in found):
                tally.found += 1
                tally.found_families[label["family"]] += 1
            elif options.misses:
                print(f"miss  {said(label, text)}")
        for label in by_kind["look_alikes"][name]:
            tally.look_alikes += 1
            on = [each for each in found if each.line == label["line"]]
            tally.flagged += bool(on)
            tally.flagged_rules.update({each.code for each in on})
            if on and options.flagged:
                codes = " ".join(sorted({each.code for each in on}))
                print(f"flag  {codes} {said(label, text)}")
        for each in found:
            if any(is_near(each, label["line"]) for label in by_kind["bottlenecks"][name]):
                tally.findings += 1
                tally.near += 1
                tally.near_rules[each.code] += 1
            elif any(is_near(each, label["line"]) for label in by_kind["disputed"][name]):
                continue
            else:
                tally.findings += 1
                if options.extras:
                    line = text[each.line - 1].strip()[:110]
                    print(f"extra {each.code} {name}:{each.line} {each.severity}: {line}")
            tally.rules[each.code] += 1


def said(label: dict[str, Any], text: list[str]) -> str:
    kinds = "/".join(label.get("kinds", []))
    line = text[label["line"] - 1].strip()[:110]
    return f"{label['file']}:{label['line']} {label.get('family', '')} {kinds}: {line}"


def is_near(finding: Any, line: int) -> bool:
    return finding.line - NEAR <= line <= finding.line + NEAR


def wilson(hits: int, of: int, z: float = 1.96) -> tuple[float, float]:
    if not of:
        return 0.0, 1.0
    share = hits / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    reach = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return middle - reach, middle + reach


def summary(tally: Tally) -> dict[str, Any]:
    low, high = wilson(tally.found, tally.labels)
    return {
        "near_lines": NEAR,
        "bottlenecks": tally.labels,
        "recall": round(tally.found / max(tally.labels, 1), 4),
        "recall_wilson_95": [round(low, 4), round(high, 4)],
        "families": {
            name: {"labels": count, "found": tally.found_families[name]}
            for name, count in sorted(tally.families.items())
        },
        "findings": tally.findings,
        "near_a_label": round(tally.near / max(tally.findings, 1), 4),
        "look_alikes": tally.look_alikes,
        "flagged": round(tally.flagged / max(tally.look_alikes, 1), 4),
        "rules": {
            code: {
                "findings": count,
                "near": tally.near_rules[code],
                "on_look_alikes": tally.flagged_rules[code],
            }
            for code, count in sorted(tally.rules.items())
        },
    }


def report(tally: Tally) -> None:
    found = summary(tally)
    low, high = found["recall_wilson_95"]
    print(f"recall {found['recall']:.3f} ({low:.3f} to {high:.3f}) of {found['bottlenecks']}")
    for name, each in found["families"].items():
        print(f"  {name:20} {each['found']:4} of {each['labels']}")
    print(f"near a label {found['near_a_label']:.3f} of {found['findings']}")
    print(f"look-alikes flagged {found['flagged']:.3f} of {found['look_alikes']}")
    for code, each in found["rules"].items():
        near, alike = each["near"], each["on_look_alikes"]
        print(f"  {code} {each['findings']:4} findings, {near:4} near, {alike} on look-alikes")


if __name__ == "__main__":
    main()
