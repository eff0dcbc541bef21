"""The page in a real browser: no complaint, nothing loaded, nothing wider than a phone."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hasten.report.page import tune_page
from specimens import NOTHING_TO_GAIN, PROVEN, UNPROVEN
from tunings import CURVES, RICH, hostile, replace

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the PATH")

DARK, LIGHT = 0, 1
PAGES = {
    "proven": tune_page(PROVEN, "out"),
    "nothing": tune_page(NOTHING_TO_GAIN, "out"),
    "unproven": tune_page(UNPROVEN, "out"),
    "rich": tune_page(RICH, "out"),
    "hostile": tune_page(hostile(RICH), "out"),
    "curves": tune_page(hostile(replace(PROVEN, curves=CURVES)), "out"),
}
MEASURE = """
addEventListener("load", () => {
  const found = {};
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, boxes = [...page.querySelectorAll(".box")];
    found[frame.name] = {
      wide: page.documentElement.scrollWidth,
      scrolling: boxes.filter(box => box.scrollWidth > box.clientWidth).length,
      charts: [...page.querySelectorAll("svg[role=img]")].map(each => {
        const room = each.getBoundingClientRect();
        const drawn = [...each.querySelectorAll("rect, polyline")].filter(
          part => part.getBoundingClientRect().width > 0);
        return {wide: room.width, high: room.height, drawn: drawn.length};
      }),
      loaded: frame.contentWindow.performance.getEntriesByType("resource").length,
      scripts: page.scripts.length,
      paper: frame.contentWindow.getComputedStyle(page.body).backgroundColor,
      title: page.title,
    };
  }
  document.getElementById("found").textContent = JSON.stringify(found);
});
"""


def browse(path: Path, *, scheme: int = LIGHT) -> tuple[str, list[str]]:
    """The document as it stands after loading, and what the console says."""
    assert CHROMIUM is not None
    ended = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--hide-scrollbars",
            "--enable-logging=stderr",
            f"--user-data-dir={path.parent / 'profile'}",
            f"--blink-settings=preferredColorScheme={scheme}",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return ended.stdout, [line for line in ended.stderr.splitlines() if ":CONSOLE" in line]


def measure(
    folder: Path, width: int, *, scheme: int = LIGHT
) -> tuple[dict[str, dict[str, object]], list[str]]:
    """All pages, each in a frame as wide as asked. The script is of the page around them."""
    frames = "".join(
        f'<iframe name="{name}" style="border:0;width:{width}px;height:800px"'
        f' srcdoc="{html.escape(page)}"></iframe>'
        for name, page in PAGES.items()
    )
    around = folder / "around.html"
    around.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><pre id="found"></pre>{frames}'
        f"<script>{MEASURE}</script>"
    )
    shown, console = browse(around, scheme=scheme)
    found = re.search(r'<pre id="found">(.*?)</pre>', shown, re.DOTALL)
    assert found is not None
    return json.loads(html.unescape(found[1])), console


def test_a_page_renders_without_a_word_on_the_console(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(PAGES["hostile"])
    shown, console = browse(path)
    assert console == []
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<script" not in shown


def test_the_browser_would_have_complained_of_a_script_and_of_a_load(tmp_path: Path) -> None:
    """So that the silence above means something."""
    path = tmp_path / "bad.html"
    bad = '<script>alert(1)</script><img src="http://127.0.0.1:9/x.png"></body>'
    path.write_text(PAGES["proven"].replace("</body>", bad))
    _, console = browse(path)
    assert len(console) == 2
    assert all("Content Security Policy" in line for line in console)


def test_on_a_phone_only_tables_scroll_and_the_charts_are_there(tmp_path: Path) -> None:
    found, console = measure(tmp_path, 390)
    assert console == []
    assert list(found) == list(PAGES)
    for name, page in found.items():
        assert page["wide"] == 390, name
        assert page["loaded"] == page["scripts"] == 0, name
        assert page["title"], name
        charts = page["charts"]
        assert isinstance(charts, list)
        assert len(charts) == {"nothing": 1, "rich": 3, "hostile": 3, "curves": 3}.get(name, 2), (
            name
        )
        assert all(each["drawn"] and each["high"] > 40 for each in charts), name
        assert all(300 < each["wide"] <= 390 for each in charts), name
    scrolling = found["rich"]["scrolling"]
    assert isinstance(scrolling, int)
    assert scrolling > 0


def test_a_page_is_dark_where_that_is_preferred(tmp_path: Path) -> None:
    light, _ = measure(tmp_path, 1280, scheme=LIGHT)
    dark, console = measure(tmp_path, 1280, scheme=DARK)
    assert console == []
    assert {page["paper"] for page in light.values()} == {"rgb(255, 255, 255)"}
    assert {page["paper"] for page in dark.values()} == {"rgb(20, 24, 28)"}
    assert {page["wide"] for page in dark.values()} == {1280}
