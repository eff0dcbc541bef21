"""The name of a task is checked before anything is imported; only what is certain is refused."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from hasten.errors import HastenError
from hasten.task.bindings import LARGEST_FILE_BYTES, functions_in, names_bound_in
from hasten.task.load import load_factory
from hasten.task.names import refuse_unknown

MADE = "def make():\n    return 1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file is None or file.startswith(str(tmp_path)):
            del sys.modules[name]


def refusal_of(name: str) -> str:
    with pytest.raises(HastenError) as refusal:
        refuse_unknown(name)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gallery:blom", "gallery workload 'blom' is not known. Did you mean 'bloom'?"),
        ("gallery:bloom@ful", "size of gallery:bloom 'ful' is not known. Did you mean 'full'?"),
        ("bloom", "'bloom' does not name a task. Use gallery:bloom, train.py:make_task or"),
        (
            "plain.py:make_tsk",
            "plain.py: function 'make_tsk' is not known. Did you mean 'make_task'",
        ),
        ("plain.py:zzz", "plain.py: function 'zzz' is not known. Known: make_task."),
        ("plain:make_tsk", "plain: function 'make_tsk' is not known. Did you mean 'make_task'?"),
        ("plian.py:make_task", "There is no file 'plian.py'. Did you mean 'plain.py'?"),
        ("sub/plian.py:make_task", "There is no file 'sub/plian.py'. Did you mean 'sub/plain.py'?"),
        ("far/away.py:make_task", "There is no file 'far/away.py'. Check the task's name."),
        (
            "plian:make_task",
            "There is no module 'plian' to import plian from. Did you mean 'plain'?",
        ),
        (
            "nope.deep:f",
            "There is no module 'nope' to import nope.deep from. Run hasten in the folder",
        ),
    ],
)
def test_a_slip_is_refused_with_the_nearest_name(name: str, message: str, folder: Path) -> None:
    (folder / "sub").mkdir()
    for path in (folder / "plain.py", folder / "sub" / "plain.py"):
        path.write_text("import torch\n\nSIZE = 3\n\ndef make_task():\n    return SIZE\n")
    assert refusal_of(name).startswith(message)


ODD = {
    "assigned": "make_task = lambda: 1",
    "unpacked": "(make_task, *others), last = [lambda: 1, 2], 3",
    "imported": "from neighbour import make as make_task",
    "by a star": "from neighbour import *\nmake_task = None or make\ndel make_task\n"
    "from starred import *",
    "by globals": "globals()['make_' + 'task'] = lambda: 1",
    "by vars": "vars()['make_' + 'task'] = lambda: 1",
    "by exec": "exec('def make_task(): return 1')",
    "by setattr": "import sys\nsetattr(sys.modules[__name__], 'make_task', lambda: 1)",
    "through its dict": "import sys\nsys.modules['odd'].__dict__['make_task'] = lambda: 1",
    "when asked": "def __getattr__(name):\n    if name != 'make_task':\n"
    "        raise AttributeError(name)\n    return lambda: 1",
    "asked elsewhere": "from neighbour import answer as __getattr__",
    "under a condition": "if True:\n    def make_task():\n        return 1",
    "in a try": "try:\n    import no_such_module\nexcept ImportError:\n    make_task = lambda: 1",
    "in a loop": "for make_task in [lambda: 1]:\n    pass",
    "with": "import contextlib\nwith contextlib.nullcontext(lambda: 1) as make_task:\n    pass",
    "by a match": "match [lambda: 1]:\n    case [make_task]:\n        pass",
    "by a match of keys": "match {'a': 1}:\n    case {**make_task}:\n        pass\n"
    "make_task = make_task.copy",
    "by a walrus": "print((make_task := lambda: 1))",
    "by a walrus in a head": "def other(x=(make_task := lambda: 1)):\n    pass",
    "by a function": "def bind():\n    global make_task\n    make_task = lambda: 1\nbind()",
    "decorated": "import functools\n@functools.cache\ndef make_task():\n    return 1",
    "by a decorator": "from neighbour import rename\n@rename\ndef other():\n    return 1",
    "by a call": "from neighbour import install\ninstall()",
    "a class": "class make_task:\n    pass",
    "asynchronous": "async def make_task():\n    pass",
    "in latin-1": "# -*- coding: latin-1 -*-\nname = '\xe4'\ndef make_task():\n    return 1",
    "nested deep": f"total = {' + '.join(['1'] * 1500)}\ndef make_task():\n    return 1",
    "with a guard": "def make_task():\n    return 1\nif __name__ == '__main__':\n    make_task()",
}
NEIGHBOUR = """
    import sys

    def make():
        return 1

    def answer(name):
        if name != "make_task":
            raise AttributeError(name)
        return make

    def rename(function):
        function.__globals__["make_task"] = function
        return function

    def install():
        sys._getframe(1).f_globals["make_task"] = make
    """


@pytest.mark.parametrize("source", ODD.values(), ids=ODD.keys())
def test_a_file_that_binds_the_name_in_an_odd_way_is_left_to_the_importer(
    source: str, folder: Path
) -> None:
    (folder / "neighbour.py").write_text(dedent(NEIGHBOUR))
    (folder / "starred.py").write_text("def make_task():\n    return 1\n")
    encoding = "latin-1" if "latin-1" in source else "utf-8"
    (folder / "odd.py").write_bytes(source.encode(encoding))
    refuse_unknown("odd.py:make_task")
    assert callable(load_factory("odd.py:make_task")), "else the file is no example"


def test_what_the_importer_tells_better_is_left_to_it(folder: Path) -> None:
    (folder / "torn.py").write_text("def make(:\n")
    (folder / "binary.py").write_bytes(b"\xff\x00\xfe")
    (folder / "large.py").write_text(MADE.ljust(LARGEST_FILE_BYTES + 1, "\n"))
    for name in ("torn.py", "binary.py", "large.py", "torn"):
        refuse_unknown(f"{name}:make_task")


def test_modules_that_may_hold_what_their_files_do_not_are_left_to_the_importer(
    folder: Path,
) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    for name in ("json:no_such", "os.path:x", "package.no_such:make", ".x:make"):
        refuse_unknown(name)


def test_a_plain_file_tells_all_names_that_it_binds(folder: Path) -> None:
    path = folder / "plain.py"
    path.write_text(
        dedent(
            """
            import logging
            import torch.nn as nn, os.path
            from dataclasses import dataclass

            log = logging.getLogger(__name__)
            torch.manual_seed(0)

            @dataclass
            class Shape:
                rows: int = 3

            def make_task():
                local = 3
                return local

            if __name__ == "__main__":
                print(make_task())
            """
        )
    )
    names = {"logging", "nn", "os", "dataclass", "log", "Shape", "make_task"}
    assert names_bound_in(path) == names
    assert functions_in(path) == {"make_task"}


HEADS = {
    "": True,
    "rows=3, *more, size=4, **others": True,
    "rows": False,
    "rows, /": False,
    "rows, size=3": False,
    "*, size": False,
    "*, size=3": True,
}


@pytest.mark.parametrize(("head", "listed"), HEADS.items())
def test_only_functions_that_need_no_argument_are_offered(
    head: str, listed: bool, folder: Path
) -> None:
    path = folder / f"with_a_head_{len(head)}.py"
    path.write_text(f"import torch\nclass Net:\n    pass\ndef train({head}):\n    pass\n")
    assert functions_in(path) == ({"train"} if listed else set())
    known = "Known: train." if listed else "Known: none."
    assert refusal_of(f"{path.name}:zzz").endswith(f"function 'zzz' is not known. {known}")
    with pytest.raises(HastenError, match=known):
        load_factory(f"{path.name}:zzz")


def test_checking_a_name_imports_neither_the_file_nor_torch(folder: Path) -> None:
    (folder / "loud.py").write_text("raise SystemExit('imported')\n" + MADE)
    code = (
        "import sys; from hasten.errors import HastenError;"
        "from hasten.task.names import refuse_unknown\n"
        "refuse_unknown('gallery:bloom@full'); refuse_unknown('loud.py:make')\n"
        "refuse_unknown('loud:make')\n"
        "sys.exit('torch' in sys.modules or 'loud' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 0, ended.stderr
