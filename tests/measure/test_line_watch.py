"""Lines of files that are seen to run."""

import importlib.util
import os
import threading
from pathlib import Path
from types import ModuleType

from hasten.measure.line_watch import LineWatch

TEXT = """\
import os

def run(way):
    if way:
        return 1
    return 2

def other():
    return 3
"""


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("watched", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_a_fork(call: object) -> None:
    process = os.fork()
    if process == 0:
        call()  # type: ignore[operator]
        os._exit(0)
    os.waitpid(process, 0)


def test_lines_are_seen_in_threads_and_forked_processes_too(tmp_path: Path) -> None:
    path, absent = tmp_path / "watched.py", tmp_path / "absent.py"
    path.write_text(TEXT)
    with LineWatch([str(path), str(absent)], tmp_path / "log") as watch:
        module = load(path)
        thread = threading.Thread(target=module.run, args=(True,))
        thread.start()
        thread.join()
        in_a_fork(lambda: module.run(False))
    module.other()
    assert watch.read() == {str(path): (1, 3, 4, 5, 6, 8), str(absent): ()}
