"""Files that are fixed: their bytes, and all the reasons not to write."""

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hasten.records.scan import FixReport
from hasten.records.scan_settings import ScanSettings
from hasten.scan.cache import Cache
from hasten.scan.fix import Surveyed, fix
from hasten.scan.gather import Means
from hasten.scan.rewriting import CHANGED, Source, fix_files
from hasten.scan.scan import scan, survey
from hasten.scan.settings import Project

SLOW = """\
import torch

@torch.no_grad()
def evaluate(model, loader):
    right = 0
    for x, y in loader:
        right += (model(x.cuda(non_blocking=True)) == y).sum().item()
    return right
"""
FAST = SLOW.replace(".sum().item()\n", ".sum()\n    right = int(right)\n")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(SLOW)
    return file


def fix_it(file: Path) -> FixReport:
    return fix([file.parent])


def test_a_file_is_fixed_and_a_second_run_changes_nothing(file: Path) -> None:
    report = fix_it(file)
    assert file.read_text() == FAST
    assert [(each.code, each.line, each.safety) for each in report.fixed] == [("HST201", 7, "safe")]
    assert report.left == ()
    assert not scan([file]).findings
    before = file.stat()
    again = fix_it(file)
    assert (again.fixed, again.differences, again.refused) == ((), {}, {})
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert file.stat().st_ino == before.st_ino


def test_the_difference_is_told_and_nothing_is_written(file: Path) -> None:
    report = fix([file], write=False)
    assert file.read_text() == SLOW
    assert not report.written
    (difference,) = report.differences.values()
    assert "-        right += (model(x.cuda(non_blocking=True)) == y).sum().item()\n" in difference
    assert "+    right = int(right)\n" in difference


def test_git_takes_the_difference(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    file.write_bytes(SLOW.rstrip().replace("\n", "\r\n").encode())
    (difference,) = fix([Path("train.py")], write=False).differences.values()
    subprocess.run(["git", "apply", "-"], input=difference.encode(), check=True, timeout=60)
    assert file.read_bytes() == FAST.rstrip().replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    ("encoding", "head"),
    [
        ("utf-8", "# é\n"),
        ("utf-8-sig", "# é\n"),
        ("utf-8", "\f\n'''\x0c \u2028 é\n'''\n"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("indentation", ["    ", "\t", "  "])
@pytest.mark.parametrize("end", ["", "\n", "\n\n  \n"])
def test_bytes_that_no_fix_touches_stay(
    file: Path, encoding: str, head: str, newline: str, indentation: str, end: str
) -> None:
    def laid_out(text: str) -> bytes:
        text = (head + text.rstrip() + end).replace("    ", indentation)
        return text.replace("\n", newline).encode(encoding)

    file.write_bytes(laid_out(SLOW))
    fix_it(file)
    assert file.read_bytes() == laid_out(FAST)


def test_a_file_keeps_its_encoding_and_each_line_its_end(file: Path) -> None:
    head = "# coding: latin-1\r\n# é\n"
    file.write_bytes((head + SLOW).encode("latin-1"))
    fix_it(file)
    assert file.read_bytes() == (head + FAST).encode("latin-1")


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o664])
def test_the_mode_of_a_file_stays(file: Path, mode: int) -> None:
    file.chmod(mode)
    fix_it(file)
    assert file.read_text() == FAST
    assert stat.S_IMODE(file.stat().st_mode) == mode


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_the_owner_of_a_file_stays(file: Path) -> None:
    os.chown(file, 1234, 2345)
    file.chmod(0o640)
    fix_it(file)
    about = file.stat()
    assert file.read_text() == FAST
    assert (about.st_uid, about.st_gid, stat.S_IMODE(about.st_mode)) == (1234, 2345, 0o640)


def test_a_file_with_another_name_is_told_and_left(file: Path, tmp_path: Path) -> None:
    (tmp_path / "other.txt").hardlink_to(file)
    report = fix_it(file)
    assert file.read_text() == SLOW
    assert report.fixed == ()
    (why,) = report.refused.values()
    assert why.startswith("it has other names (hard links)")


def test_nothing_else_is_left_in_the_folder(file: Path) -> None:
    fix_it(file)
    assert list(file.parent.iterdir()) == [file]


def test_a_symbolic_link_is_not_written_through(file: Path, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    link = tmp_path / "inner" / "link.py"
    link.symlink_to(file)
    report = fix([link.parent])
    assert list(report.refused.values()) == ["it is a symbolic link"]
    assert file.read_text() == SLOW
    assert link.is_symlink()
    assert report.fixed == ()
    assert "HST201" in {each.code for each in report.left}


def test_a_file_outside_of_what_was_given_is_not_written(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    report = as_if_found(file, roots=[other])
    assert list(report.refused.values()) == ["it lies outside of what was given"]
    assert file.read_text() == SLOW


def test_a_file_below_a_folder_that_is_a_link_is_outside(file: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    report = as_if_found(root / "link" / file.name, roots=[root])
    assert list(report.refused.values()) == ["it lies outside of what was given"]
    assert file.read_text() == SLOW


def test_a_read_only_file_is_told_and_left(file: Path) -> None:
    file.chmod(0o444)
    report = fix_it(file)
    assert list(report.refused.values()) == ["it is read-only"]
    assert file.read_text() == SLOW


def test_a_file_that_changed_since_it_was_read_is_left(file: Path) -> None:
    changed = SLOW + "# somebody is at work\n"
    report = as_if_found(file, roots=[file.parent], meanwhile=lambda: file.write_text(changed))
    assert list(report.refused.values()) == [CHANGED]
    assert file.read_text() == changed


def test_a_file_that_is_gone_is_told(file: Path) -> None:
    report = as_if_found(file, roots=[file.parent], meanwhile=file.unlink)
    assert list(report.refused.values()) == ["it cannot be written: No such file or directory"]
    assert not file.exists()


def as_if_found(
    file: Path, roots: list[Path], meanwhile: Callable[[], object] = lambda: None
) -> FixReport:
    """The fixes of the file, which may change between the scan and the writing."""
    found = Surveyed(survey([file], Project(Path.cwd()), Means(Cache(None, ""))))
    findings = found.look({})
    sources, _ = found.sources(findings)
    meanwhile()
    return fix_files(sources, findings, found.look, roots, {})


@pytest.mark.parametrize(
    "content",
    [
        SLOW.encode() + b"def (:\n",
        SLOW.encode() + b"# \xff\n",
        b"# coding: nonsense\n" + SLOW.encode(),
        SLOW.encode() + b"\0",
    ],
    ids=["syntax error", "not UTF-8", "unknown encoding", "zero byte"],
)
def test_a_file_that_is_no_python_is_left(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    report = fix_it(file)
    assert (report.fixed, report.differences) == ((), {})
    assert file.read_bytes() == content


def test_an_encoding_that_would_change_other_bytes_is_refused(file: Path) -> None:
    # Of UTF-7 there are two spellings, and only one is written.
    content = b"# coding: utf-7\n# +AGE-\n" + SLOW.replace("+=", "+-=").encode()
    source = Source.of(file, content)
    assert source.holding(source.text) is None


def test_other_files_are_fixed_where_one_cannot_be(file: Path) -> None:
    locked = file.with_name("locked.py")
    locked.write_text(SLOW)
    locked.chmod(0o444)
    report = fix_it(file)
    assert file.read_text() == FAST
    assert locked.read_text() == SLOW
    assert len(report.refused) == 1
    assert len(report.fixed) == 1


LOOP = """\
import torch

def told(loss):
    return loss.item()

def tell(loss):
    print(told(loss))

def train(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        loss = model(x.cuda(non_blocking=True), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
        pass
    return total
"""


@pytest.mark.parametrize(
    ("other", "select"),
    [
        ("told(loss)", ()),
        ("tell(loss)", ()),
        ("print(loss.item())  # hasten: ignore[HST201]", ()),
        ("print(float(loss))", ("HST201",)),
        ("if loss > 3: print(x)", ("HST201",)),
        ("save(model.told.cpu())", ()),
        ("save(model.told.tolist())", ()),
        ("save(each.numpy() for each in model.told)", ()),
    ],
)
def test_a_loop_that_waits_in_any_case_is_not_fixed(
    file: Path, other: str, select: tuple[str, ...]
) -> None:
    project = Project(file.parent, ScanSettings(select=select))
    file.write_text(LOOP)
    assert fix([file], project, unsafe=True, write=False).fixed
    file.write_text(LOOP.replace("pass", other))
    report = fix([file], project, unsafe=True)
    assert report.fixed == ()
    assert file.read_text() == LOOP.replace("pass", other)
    assert not select or {each.code for each in report.left} == set(select)
    assert (15, "display") in {
        (each.line, each.fix.safety) for each in report.left if each.fix is not None
    }


@pytest.mark.parametrize(
    "other",
    [
        "if len(x) % 100 == 0: print(told(loss))",
        "if len(x) % 100 == 0: print(y.cpu())",
        "rows = torch.zeros(3).tolist()",
    ],
)
def test_what_runs_rarely_or_on_the_host_does_not_keep_a_loop_waiting(
    file: Path, other: str
) -> None:
    file.write_text(LOOP.replace("pass", other))
    assert [each.line for each in fix([file], write=False).fixed] == [15]
