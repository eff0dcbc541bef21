"""``hasten gallery`` by the real command, and its page at the width of a terminal."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
from rich.console import Console

from cards import HOSTILE, INERT
from hasten.gallery.gpt.about import WORKLOAD
from hasten.records.gallery import Workload, WorkloadSize
from hasten.report.gallery import gallery_card

SCHEMA = Path(__file__).parents[2] / "docs/schema/gallery.json"
NAMES = ["battery", "bloom", "gpt", "lensing", "microbiome"]


def _hasten(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hasten", "gallery", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def _shown(*workloads: Workload, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(gallery_card(workloads))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_command_lists_every_workload_and_how_to_run_it() -> None:
    ended = _hasten()
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert [line for line in lines if line in NAMES] == NAMES
    facts = [" ".join(line.split()) for line in lines]
    for name in NAMES:
        assert f"tune it hasten tune gallery:{name}" in facts
        assert f"its script python -m hasten.gallery.{name}.naive" in facts
    assert len(re.findall("guessing comes to", ended.stdout)) == len(NAMES)


def test_the_document_for_programs_fits_its_schema() -> None:
    document = json.loads(_hasten("--json").stdout)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert [each["name"] for each in document["workloads"]] == NAMES
    assert all(each["mistakes"] for each in document["workloads"])


def test_the_list_is_made_without_torch() -> None:
    code = (
        "import sys; from hasten.gallery.catalogue import read_catalogue; "
        "assert read_catalogue().workloads; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_the_page_fits_a_terminal_and_says_all_of_a_workload() -> None:
    lines = _shown(WORKLOAD, WORKLOAD)
    assert max(map(len, lines)) <= 80
    assert lines[:2] == ["gpt", f"  {WORKLOAD.about}"]
    words = " ".join(" ".join(lines).split())
    assert "metric token_cross_entropy, lower is better: guessing comes to 3.15" in words
    assert "the script is better by 0.75 or more" in words
    assert all(f"{size.name} {size.shape}" in words for size in WORKLOAD.sizes)


def test_what_a_workload_says_drives_no_terminal() -> None:
    size = WorkloadSize(name=HOSTILE, shape=HOSTILE)
    hostile = msgspec.structs.replace(
        WORKLOAD, name=HOSTILE, about=HOSTILE, metric=HOSTILE, sizes=(size,)
    )
    page = "\n".join(_shown(hostile, width=250))
    assert "\x1b" not in page
    assert page.count(INERT) == 7  # the name also stands in both commands
