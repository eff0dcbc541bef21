"""Source files that a process reads from elsewhere."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """\
import inspect, multiprocessing, sys
from hasten.measure.edited import read_instead

def main():
    read_instead({sys.argv[1]: sys.argv[2]})
    read_instead({sys.argv[1]: sys.argv[2]})  # as each start of one worker does
    import subject
    print(subject.number(), subject.__file__ == sys.argv[1])
    print(inspect.getsource(subject.number).strip().splitlines()[-1].strip())
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.apply(subject.number))

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "subject.py").write_text("def number():\n    return 1\n")
    (tmp_path / "other.py").write_text("# longer\n\n\ndef number():\n    return 2\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def run_python(folder: Path, *arguments: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_the_other_file_is_read_in_every_process_and_nothing_else_differs(folder: Path) -> None:
    assert run_python(folder, "-c", "import subject; print(subject.number())") == ["1"]
    compiled = {path: path.read_bytes() for path in folder.rglob("subject*.pyc")}
    assert compiled, "code of the file as it is, which must not be taken"
    files = [str(folder / name) for name in ("subject.py", "other.py")]
    told = run_python(folder, "script.py", *files)
    assert told == ["2 True", "return 2", "2", "2", "2"]
    assert {path: path.read_bytes() for path in folder.rglob("subject*.pyc")} == compiled
    assert run_python(folder, "-c", "import subject; print(subject.number())") == ["1"]
