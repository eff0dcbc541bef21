"""The card of ``hasten profile --data``, of a report with everything and of one with little."""

import io

import msgspec
from rich.console import Console

from hasten.records.loading import (
    DataReport,
    DiskUse,
    LoaderRating,
    LoaderShare,
    Rate,
    Refused,
)
from hasten.records.plan import NAIVE
from hasten.report.data import data_card

OWN = Rate(
    mode="own", how="no workers", rows_per_s=1000, spread=0.1, turns=3, seconds_per_batch=0.032
)
REPORT = DataReport(
    task="train.py:make_task",
    plan=NAIVE,
    rows_per_s=1000,
    batch_s=0.032,
    share=LoaderShare(share=0.4, low=0.35, high=0.45, how="measured: by replay"),
    rating=LoaderRating(mode="own", rows_per_s=1000, spread=0.1, why="nothing is faster"),
    rates=(
        OWN,
        Rate(
            mode="workers",
            how="2 workers",
            rows_per_s=1900,
            spread=0.0,
            turns=1,
            seconds_per_batch=0.017,
        ),
    ),
    refused=(Refused(mode="batched", why="its items draw \x1b[31mrandom numbers"),),
    disk=DiskUse(
        batches=8,
        files=64,
        asked_bytes=4 << 20,
        cold_disk_bytes=3 << 20,
        warm_disk_bytes=0,
        cold_s=0.5,
        warm_s=0.2,
        waited_s=0.3,
        verdict="disk",
        why="a batch takes 2.5 times as long",
    ),
    next=("Try workers.",),
    notes=(),
    elapsed_s=40,
)


def render(report: DataReport) -> str:
    console = Console(file=io.StringIO(), width=120, highlight=False)
    console.print(data_card(report))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_card_has_rates_share_refusals_and_the_disk() -> None:
    text = render(REPORT)
    for words in (
        "the loader alone: 1,000 rows/s, 32.0 ms a batch",
        "of a step: 40.0 % (35.0 to 45.0 %), measured: by replay",
        "as it is  1,000 rows/s",
        "workers   1,900 rows/s  1.90x  2 workers, one turn",
        "THE DISK",
        "4.0 MiB for 8 batches of 64 files",
        "3.0 MiB in 500.0 ms",
        "waited for it",
        "1.  Try workers.",
    ):
        assert words in text
    assert "\x1b[31m" not in text


def test_what_was_not_measured_is_said_and_is_not_zero() -> None:
    text = render(
        msgspec.structs.replace(
            REPORT, rows_per_s=None, batch_s=None, share=None, rates=(), refused=(), disk=None
        )
    )
    assert "the loader alone: not measured" in text
    assert "of a step: not measured" in text
    assert "Nothing could be measured." in text
