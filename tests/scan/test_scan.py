"""A whole scan: what is told of a project, whatever lies in it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from projects import HOT, LINE, put, write

from hasten.records.record import to_json
from hasten.records.scan import ScanReport
from hasten.records.scan_settings import ScanSettings
from hasten.scan import gather
from hasten.scan.cache import Cache
from hasten.scan.gather import Means
from hasten.scan.look import Look
from hasten.scan.pool import COMMAND
from hasten.scan.reading import MOST_BYTES
from hasten.scan.registry import all_rules
from hasten.scan.rule import Found
from hasten.scan.rules.hst201_item import Item
from hasten.scan.scan import scan
from hasten.scan.settings import Project
from hasten.scan.subjects import SUBJECTS
from hasten.scan.worker import send


def scanned(folder: Path, **settings: Any) -> ScanReport:
    return scan([folder], Project(folder, ScanSettings(select=("HST201",), **settings)))


def test_findings_come_in_the_order_of_files_and_lines(tmp_path: Path) -> None:
    write(tmp_path, b=HOT, a=HOT + HOT.replace("import torch\n", ""), none="import torch\n")
    report = scanned(tmp_path)
    assert [(Path(each.path).name, each.line) for each in report.findings] == [
        ("a.py", LINE),
        ("a.py", LINE + 8),
        ("b.py", LINE),
    ]
    assert report.summary.files == 3
    assert report.summary.codes == {"HST201": 3}


def test_paths_are_shown_from_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, pkg__a=HOT)
    assert scanned(tmp_path).findings[0].path == (tmp_path / "pkg/a.py").as_posix()
    monkeypatch.chdir(tmp_path)
    for path in (Path(), Path("pkg"), Path("pkg/../pkg/a.py"), tmp_path):
        (finding,) = scan([path]).findings
        assert finding.path == "pkg/a.py"


def test_what_cannot_matter_is_not_decoded(tmp_path: Path) -> None:
    write(tmp_path, a=b"# \xff neither decoded nor parsed (\n", b=HOT)
    summary = scanned(tmp_path).summary
    assert (summary.files, summary.skipped, summary.unreadable) == (1, 1, {})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"import torch\nfor", "line 2: "),
        (b"import torch\n\x00", "null byte"),
        (b"# torch \xff\xfe", "its encoding is not known"),
        (b"# coding: nonsense\nimport torch", "its encoding is not known"),
        (b"# coding: rot13\nimport torch", "its encoding is not known"),
        (b"# coding: undefined\nimport torch", "its encoding is not known"),
        (b"import torch\n" + b"(" * 5_000, "line 2: too many nested parentheses"),
        (b"import torch\nx = " + b"-" * 100_000 + b"1", "nested too deeply"),
        (b"import torch\nx" + b".y" * 100_000, "nested too deeply"),
        (b"import torch\n" + b"#" * MOST_BYTES, "bytes, over"),
        (b"import torch\n\tif 1:\n  pass", "line 2: "),
        (b"import torch\nprint 'two'", "line 2: "),
    ],
    ids=range(12),
)
def test_a_file_that_cannot_be_read_is_told_and_the_rest_goes_on(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    write(tmp_path, bad=content, good=HOT)
    report = scanned(tmp_path)
    assert len(report.findings) == 1
    ((path, why),) = report.summary.unreadable.items()
    assert Path(path).name == "bad.py"
    assert reason in why
    assert report.summary.files == 1


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"\xef\xbb\xbf" + HOT.encode(), LINE),
        (HOT.replace("\n", "\r\n").encode(), LINE),
        (HOT.replace("\n", "\r").encode(), LINE),
        (HOT.replace("import torch\n", "import torch\n\x0c").encode(), LINE),
        (("# coding: latin-1\n# \xe9\xff\n" + HOT).encode("latin-1"), LINE + 2),
        (("x = '" + "a" * 1_000_000 + "'\n" + HOT).encode(), LINE + 1),
        (HOT.rstrip("\n").encode(), LINE),
        (("'\\d' is 1\n" + HOT).encode(), LINE + 1),
    ],
    ids=["mark", "two ends", "old end", "form feed", "latin", "long line", "no end", "warnings"],
)
def test_a_file_may_be_written_in_many_ways(
    tmp_path: Path, content: bytes, line: int, recwarn: pytest.WarningsRecorder
) -> None:
    write(tmp_path, a=content)
    (finding,) = scanned(tmp_path).findings
    assert (finding.line, finding.column) == (line, 18)
    assert not recwarn.list


def test_columns_are_in_characters(tmp_path: Path) -> None:
    write(tmp_path, a=HOT.replace("total += loss", "é = 'ü'; total += loss"))
    found = scanned(tmp_path).findings[0]
    assert found.column == 18 + len("é = 'ü'; ")
    assert found.end_column == found.column + len("loss.item()")


def test_a_long_row_of_branches_is_no_deep_one(tmp_path: Path) -> None:
    row = "".join(f"    elif x == {number}:\n        pass\n" for number in range(400))
    write(tmp_path, a=f"{HOT}\ndef f(x):\n    if x:\n        pass\n{row}")
    assert not scanned(tmp_path).summary.unreadable


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    write(tmp_path, good=HOT)
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere")
    (tmp_path / "round.py").symlink_to(tmp_path / "round.py")
    os.mkfifo(tmp_path / "pipe.py")
    report = scanned(tmp_path)
    assert len(report.findings) == 1
    told = {Path(path).name: why for path, why in report.summary.unreadable.items()}
    assert told == {
        "gone.py": "No such file or directory",
        "pipe.py": "it is no regular file",
        "round.py": "Too many levels of symbolic links",
    }


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is closed to this user")
def test_a_closed_file_is_told(tmp_path: Path) -> None:
    write(tmp_path, a=HOT).joinpath("a.py").chmod(0)
    assert list(scanned(tmp_path).summary.unreadable.values()) == ["Permission denied"]


def test_a_name_that_is_no_text_can_be_told(tmp_path: Path) -> None:
    put(tmp_path / os.fsdecode(b"\xff.py"), HOT)
    report = scanned(tmp_path)
    assert report.findings[0].path.endswith("/\N{REPLACEMENT CHARACTER}.py")
    to_json(report)


# Comments and settings


@pytest.mark.parametrize(
    "codes", ["HST201", "HST2", "HST9, HST201", "item-in-hot-loop", "hst201", "hst2"]
)
def test_a_comment_with_codes_ignores_them(tmp_path: Path, codes: str) -> None:
    write(tmp_path, a=HOT.replace("loss.item()", f"loss.item()  # hasten: ignore[{codes}]"))
    report = scanned(tmp_path)
    assert report.findings == ()
    assert [(each.line, each.reason) for each in report.summary.spared] == [(LINE, "ignored")]


COMMENT = "# hasten: ignore[HST201]"


@pytest.mark.parametrize(
    "statement",
    [
        f"print(\n            loss.item(),\n        )  {COMMENT}",
        f"print(  {COMMENT}\n            loss.item(),\n        )",
        f"if max(\n            loss.item(), 1\n        ):  {COMMENT}\n            pass",
        "print(loss.item())  # Hasten: Ignore[HST201]",
    ],
)
def test_a_comment_counts_on_the_first_and_last_line_of_a_statement(
    tmp_path: Path, statement: str
) -> None:
    write(tmp_path, a=HOT.replace("total += loss.item()", statement))
    assert scanned(tmp_path).findings == ()
    write(tmp_path, a=HOT.replace("total += loss.item()", statement.replace("HST201", "HST202")))
    assert len(scanned(tmp_path).findings) == 1


def test_a_comment_in_the_body_of_a_statement_is_not_of_its_head(tmp_path: Path) -> None:
    statement = f"if loss.item() > 1:\n            print(1)\n            pass  {COMMENT}"
    write(tmp_path, a=HOT.replace("total += loss.item()", statement))
    assert len(scanned(tmp_path).findings) == 1


def test_a_comment_without_codes_ignores_nothing_and_is_told(tmp_path: Path) -> None:
    write(tmp_path, a=HOT.replace("loss.item()", "loss.item()  # hasten: ignore"))
    report = scanned(tmp_path)
    assert len(report.findings) == 1
    (remark,) = report.summary.remarks
    assert remark.line == LINE
    assert "without codes" in remark.message


def test_an_unknown_code_in_a_comment_is_told_with_the_nearest(tmp_path: Path) -> None:
    write(
        tmp_path, a=HOT.replace("loss.item()", "loss.item()  # hasten: ignore[HST201,item-in-loop]")
    )
    report = scanned(tmp_path)
    assert report.findings == ()
    (remark,) = report.summary.remarks
    assert remark.message == "rule 'item-in-loop' is not known. Did you mean 'item-in-hot-loop'?"


def test_text_that_looks_like_a_comment_ignores_nothing(tmp_path: Path) -> None:
    write(tmp_path, a=HOT.replace("loss.item()", "loss.item() + len('# hasten: ignore[HST201]')"))
    assert len(scanned(tmp_path).findings) == 1


def test_what_runs_seldom_is_spared(tmp_path: Path) -> None:
    write(tmp_path, a="import torch\n\ndef f(loss):\n    return loss.item()\n")
    (spared,) = scanned(tmp_path).summary.spared
    assert (spared.line, spared.reason) == (4, "seldom")


def test_a_project_excludes_and_ignores_by_patterns(tmp_path: Path) -> None:
    write(tmp_path, a=HOT, tests__b=HOT, gen__c=HOT)
    report = scanned(tmp_path, exclude=("gen/",), per_file_ignores={"tests/**": ("HST2",)})
    assert [Path(each.path).name for each in report.findings] == ["a.py"]
    assert report.summary.files == 2


# Processes and cache


def many(folder: Path, count: int = 30) -> Path:
    for number in range(count):
        put(folder / f"m{number}.py", HOT + f"# {number}\n" * (number * 7))
    return folder


def test_processes_tell_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(many(tmp_path), bad=b"import torch\nfor", worse=b"# torch \xff", other=b"1")
    alone = scan([tmp_path])
    monkeypatch.setattr(gather, "ENOUGH_BYTES", 1)
    monkeypatch.setattr("hasten.scan.pool.CHUNK_BYTES", 2_000)
    told: list[tuple[int, int]] = []
    means = Means(Cache(None, ""), 3, lambda done, of: told.append((done, of)))
    assert scan([tmp_path], None, means) == alone
    assert len(alone.findings) == 30
    assert told[-1] == (32, 32)


def test_a_process_that_ends_costs_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the parser itself crashes."""
    many(tmp_path, 6)
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import os, sys\nfrom hasten.scan import worker\n"
        "answer = worker.Reader.answer\n"
        "def dies(self, path):\n"
        "    return os._exit(1) if path.name == 'm3.py' else answer(self, path)\n"
        "worker.Reader.answer = dies\nworker.main()\n"
    )
    monkeypatch.setattr(gather, "ENOUGH_BYTES", 1)
    monkeypatch.setattr("hasten.scan.pool.COMMAND", (sys.executable, str(worker)))
    report = scan([tmp_path], None, Means(Cache(None, ""), 2))
    assert len(report.findings) == 5
    ((path, why),) = report.summary.unreadable.items()
    assert Path(path).name == "m3.py"
    assert "the process that read it ended" in why


def test_ctrl_c_while_an_answer_comes_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is then neither free nor busy."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    many(tmp_path)
    monkeypatch.setattr(gather, "ENOUGH_BYTES", 1)
    monkeypatch.setattr("hasten.scan.pool.receive", interrupt)
    before = set(psutil.Process().children())
    with pytest.raises(KeyboardInterrupt):
        scan([tmp_path], None, Means(Cache(None, ""), 2))
    assert set(psutil.Process().children()) == before


def test_a_process_whose_answers_nobody_takes_ends_without_a_word(tmp_path: Path) -> None:
    """As where Ctrl-C has ended whoever asked."""
    put(tmp_path / "a.py", HOT)
    worker = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdout.close()
    send([], worker.stdin)
    send([bytes(tmp_path / "a.py")], worker.stdin)
    assert worker.stderr is not None
    with worker.stderr, worker.stdin:
        assert worker.stderr.read() == b""
        assert worker.wait(60) == 1


def test_no_torch_is_loaded(tmp_path: Path) -> None:
    write(tmp_path, a=HOT)
    script = (
        "import sys\nfrom pathlib import Path\nfrom hasten.scan.scan import scan\n"
        f"assert scan([Path({str(tmp_path)!r})]).findings\n"
        "sys.exit(bool({'torch', 'numpy'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr


def kept(folder: Path, file: Path, version: str = "1") -> tuple[ScanReport, int]:
    """And how many files were looked at anew."""
    new: list[int] = []
    report = scan([folder], None, Means(Cache(file, version), 1, lambda done, of: new.append(done)))
    return report, len(new)


def test_what_has_not_changed_is_not_looked_at_again(tmp_path: Path) -> None:
    folder, file = many(tmp_path / "project", 5), tmp_path / "kept"
    first, anew = kept(folder, file)
    assert anew == 5
    assert kept(folder, file) == (first, 0)
    put(folder / "m1.py", "import torch\n")
    second, anew = kept(folder, file)
    assert anew == 1
    assert len(second.findings) == 4
    assert kept(folder, file, "2")[1] == 5


def test_a_renamed_file_is_told_by_its_new_name(tmp_path: Path) -> None:
    folder, file = many(tmp_path / "project", 2), tmp_path / "kept"
    kept(folder, file)
    (folder / "m0.py").rename(folder / "renamed.py")
    report, anew = kept(folder, file)
    assert anew == 0
    assert [Path(each.path).name for each in report.findings] == ["m1.py", "renamed.py"]


def test_other_rules_are_other_entries(tmp_path: Path) -> None:
    folder, file = many(tmp_path / "project", 2), tmp_path / "kept"
    kept(folder, file)
    without = Project(folder, ScanSettings(ignore=("HST201",)))
    assert scan([folder], without, Means(Cache(file, "1"))).findings == ()


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"\x00" * 100])
def test_a_damaged_cache_is_as_good_as_none(tmp_path: Path, damage: bytes) -> None:
    folder, file = many(tmp_path / "project", 2), tmp_path / "kept"
    first, _ = kept(folder, file)
    whole = file.read_bytes()
    for content in (damage, whole[:-1], whole[:50] + b"!" + whole[51:]):
        file.write_bytes(content)
        assert kept(folder, file) == (first, 2)
    assert kept(folder, file) == (first, 0)


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    folder = many(tmp_path / "project", 2)
    blocked = put(tmp_path / "file", "") / "kept"
    assert kept(folder, blocked)[1] == 2
    assert kept(folder, blocked)[1] == 2


def test_entries_that_nobody_asks_for_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    first = Cache(file, "1")
    first.put("old", b"old")
    first.save()
    for number in range(30):
        cache = Cache(file, "1")
        cache.put("new", b"%d" % number)
        cache.save()
    assert Cache(file, "1").get("old") is None
    assert Cache(file, "1").get("new") == b"29"


def test_a_fault_of_a_rule_costs_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(rule: object, site: object, look: Look) -> Iterator[Found]:
        if "faulty" in look.text:
            raise KeyError("oh")
        return iter([Found(site.node, "found")])  # type: ignore[attr-defined]

    monkeypatch.setattr(Item, "check", check)
    write(tmp_path, a=HOT, b=HOT + "# faulty\n")
    report = scanned(tmp_path)
    assert [Path(each.path).name for each in report.findings] == ["a.py"]
    (reason,) = report.summary.unreadable.values()
    assert reason == f"HST201 cannot judge line {LINE}, a fault of Hasten: KeyError('oh')"


def test_a_rule_is_met_where_what_it_looks_at_is_in_the_code(tmp_path: Path) -> None:
    write(tmp_path, a=HOT, b="import torch\nloader = DataLoader(data, num_workers=2)\n")
    summary = scan([tmp_path], Project(tmp_path)).summary
    assert {"HST201", "HST121"} <= {*summary.met}
    assert "HST501" in summary.rules
    assert "HST501" not in summary.met
    assert {*summary.met} <= {*summary.rules}


PLAIN = """\
import torch
from torch.utils.data import DataLoader

def train(model, data, optimizer, device):
    loader = DataLoader(data, batch_size=64, num_workers=4)
    for epoch in range(3):
        for x, y in loader:
            loss = model(x.to(device)).sub(y.to(device)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
"""


def test_a_rule_is_not_met_by_calls_that_every_training_has(tmp_path: Path) -> None:
    write(tmp_path, a=PLAIN)
    met = scan([tmp_path], Project(tmp_path)).summary.met
    assert {"HST101", "HST121", "HST201", "HST614"} <= {*met}
    elsewhere = {"HST213", "HST407", "HST502", "HST610", "HST629", "HST652"}
    assert not elsewhere & {*met}


def test_what_shows_the_subject_of_a_rule_is_what_the_rule_looks_at() -> None:
    looked_at = {rule.code: {*rule.calls, *rule.writes} for rule in all_rules()}
    for code, named in SUBJECTS.items():
        assert named <= looked_at[code], code
