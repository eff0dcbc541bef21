"""Writes api.md from the signatures and docstrings of the public names"""

import ast
import enum
import importlib
import inspect
import re
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from hasten.records.fields import field_docs
from hasten.records.plan import Rung

WIDTH = 92
INTRO = """\
<!-- Written by docs/api.py from the source. Run `python docs/api.py`. -->

# API reference

All names of Python that are meant to be used, made from their signatures and docstrings. Those of
`hasten` itself are resolved when they are first used: `import hasten` imports no torch. What is not
on this page may change at any time. The commands are on [their own page](commands.md).
"""
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Group(NamedTuple):
    title: str
    about: str
    names: tuple[str, ...]


GROUPS = (
    Group(
        "Task",
        "What to train. [Write a task](task.md) shows one.",
        ("hasten.Task", "hasten.Metric", "hasten.HastenError"),
    ),
    Group(
        "Tune, prove, bench",
        "These are commands: [tune](tune.md), [prove](prove.md), [bench](bench.md). They run a task"
        " in other processes, by its name. In a test suite the pytest fixture `hasten_bench` asks"
        " the same; `hasten_bench(TASK, *arms)` gives a `Bench`.",
        ("hasten.pytest_plugin.Bench",),
    ),
    Group(
        "Step engine",
        "In a loop that you keep: [use a recipe](apply.md), [use it in your own"
        " loop](step-engine.md).",
        (
            "hasten.PerformanceOptimizer",
            "hasten.Run",
            "hasten.ModelOptimizer",
            "hasten.TrainingOptimizer",
            "hasten.PerformanceConfig",
            "hasten.OptimizationLevel",
            "hasten.MemoryFormat",
        ),
    ),
    Group(
        "Data",
        "The same batches, sooner: [load data faster](data.md), [the loaders by"
        " themselves](loaders.md), [encode tables and text](encoders.md).",
        (
            "hasten.create_optimized_dataloader",
            "hasten.DataPipelineOptimizer",
            "hasten.data.loaders.batched.BatchedLoader",
            "hasten.data.loaders.resident.ResidentLoader",
            "hasten.data.loaders.prefetched.PrefetchedLoader",
            "hasten.data.freezing.freeze.freeze",
            "hasten.data.freezing.freeze.CannotFreeze",
            "hasten.data.encoders.bits_to_tensor",
            "hasten.data.encoders.tensor_to_bits",
            "hasten.data.encoders.NGrams",
            "hasten.data.encoders.Tokenizer",
            "hasten.data.encoders.Tokens",
            "hasten.data.encoders.sliding_windows",
            "hasten.data.encoders.window_ends",
            "hasten.data.encoders.WindowDataset",
        ),
    ),
    Group(
        "Train",
        "A whole training by one call, as [`hasten train`](train.md) does it.",
        ("hasten.fit", "hasten.Every", "hasten.evaluate"),
    ),
    Group(
        "Cache",
        "[Keep what was computed](cache.md).",
        (
            "hasten.data.cached",
            "hasten.DatasetCache",
            "hasten.data.Strings",
            "hasten.data.BuildingBar",
        ),
    ),
    Group("Regions", "[Time your own regions](regions.md).", ("hasten.profiled",)),
    Group(
        "Records",
        "What a [recipe](apply.md) decides, and how far that may change the numbers.",
        ("hasten.Plan", "hasten.Rung"),
    ),
    Group(
        "Your own technique",
        "[How to write one](technique.md).",
        (
            "hasten.register_technique",
            "hasten.Technique",
            "hasten.Part",
            "hasten.Stage",
            "hasten.Effect",
            "hasten.CannotApply",
            "hasten.Pipeline",
        ),
    ),
)
LEFT_OUT = {
    "BatchedLoader": {"epoch"},
    "Bench": {"__init__"},
    "DatasetCache": {"look_up"},
    "Effect": {"words"},
}
"""What Hasten itself calls, and no user has to."""


def page() -> str:
    sections = [INTRO]
    for group in GROUPS:
        sections += [f"## {group.title}", group.about, *(_entry(name) for name in group.names)]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _entry(name: str) -> str:
    module, _, last = name.rpartition(".")
    thing = getattr(importlib.import_module(module), last)
    parts = [f"### {name}"]
    if inspect.isfunction(thing):
        signature = _signature(_tree(thing), last, vars(inspect.getmodule(thing)))
        return "\n\n".join([*parts, signature, _words(thing.__doc__)])
    parts += [_class_signature(thing), _words(thing.__doc__), _words(_init_words(thing))]
    parts += [_fields(thing), _members(thing)]
    parts += [_method(thing, each) for each in _methods(thing)]
    return "\n\n".join(filter(None, parts))


def _tree(thing: Any) -> Any:
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


def _class_signature(kind: type) -> str:
    """How one is made: by the fields of a record, which a table tells, or by ``__init__``."""
    for each in _tree(kind).body:
        if isinstance(each, Function) and each.name == "__init__":
            left_out = "__init__" in LEFT_OUT.get(kind.__name__, ())
            known = vars(inspect.getmodule(kind))
            return "" if left_out else _signature(each, kind.__name__, known, method=True)
    return ""


def _init_words(kind: type) -> str | None:
    return kind.__init__.__doc__ if inspect.isfunction(kind.__init__) else None


def _signature(
    function: Function, name: str, known: dict[str, Any], *, method: bool = False
) -> str:
    """``known``: the names of its module, for the numbers that defaults are called by."""
    _say_numbers(function.args, known)
    gives, listed = "", _arguments(function.args)
    if method and not _is_decorated(function, "staticmethod"):
        listed = [each for each in listed[1:] if each != "/" or len(function.args.posonlyargs) > 1]
    if function.returns is not None and function.name != "__init__":
        gives = f" -> {_annotation(function.returns)}"
    line = f"{name}({', '.join(listed)}){gives}"
    if len(line) > WIDTH:
        line = f"{name}(\n" + "".join(f"    {each},\n" for each in listed) + f"){gives}"
    return f"```text\n{line}\n```"


def _say_numbers(arguments: ast.arguments, known: dict[str, Any]) -> None:
    for defaults in (arguments.defaults, arguments.kw_defaults):
        for index, each in enumerate(defaults):
            value = known.get(each.id) if isinstance(each, ast.Name) else None
            if isinstance(value, int | float):
                defaults[index] = ast.Constant(value)


def _arguments(arguments: ast.arguments) -> list[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    bare = len(positional) - len(arguments.defaults)
    listed = [
        _argument(each, arguments.defaults[index - bare] if index >= bare else None)
        for index, each in enumerate(positional)
    ]
    if arguments.posonlyargs:
        listed.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        listed.append(f"*{_argument(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        listed.append("*")
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    listed += [_argument(each, default) for each, default in pairs]
    return [*listed, *([f"**{_argument(arguments.kwarg, None)}"] if arguments.kwarg else [])]


def _argument(each: ast.arg, default: ast.expr | None) -> str:
    typed = each.arg if each.annotation is None else f"{each.arg}: {_annotation(each.annotation)}"
    if default is None:
        return typed
    return f"{typed} = {ast.unparse(default)}"


def _annotation(node: ast.expr) -> str:
    """Without the quotes around types that are known to type checkers only."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "ClassVar":
        node = node.slice
    return re.sub(r"^'(.*)'$|'([A-Z]\w*)'", r"\1\2", ast.unparse(node))


def _fields(kind: type) -> str:
    docs = field_docs(kind)
    rows = [
        [
            f"`{each.target.id}`",
            f"`{_annotation(each.annotation)}`",
            _default(each.value),
            _words(docs.get(each.target.id)),
        ]
        for each in _tree(kind).body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        if not each.target.id.startswith("_")
    ]
    return _table(["field", "type", "default", "meaning"], rows) if rows else ""


def _default(node: ast.expr | None) -> str:
    if node is None:
        return "required"
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        if keyword.arg == "default_factory":
            made = ast.unparse(keyword.value).removeprefix("lambda: ")
            return f"`{ {'dict': '{}', 'list': '[]'}.get(made, made) }`"
    shown = ast.unparse(node)
    return "" if shown.startswith("_") else f"`{shown}`"


def _members(kind: type) -> str:
    """Of an enumeration."""
    if not issubclass(kind, enum.Enum):
        return ""
    docs: dict[str, str] = {}
    for member, text in pairwise(_tree(kind).body):
        if isinstance(member, ast.Assign) and isinstance(text, ast.Expr):
            docs[ast.unparse(member.targets[0])] = ast.literal_eval(text.value)
    if issubclass(kind, Rung):
        docs = {each.name: f"{each.meaning()}." for each in kind}
    rows = [[f"`{each.name}`", f"`{each.value!r}`", _words(docs.get(each.name))] for each in kind]
    return _table(["member", "value", "meaning"], rows)


def _methods(kind: type) -> list[Function]:
    left_out = LEFT_OUT.get(kind.__name__, set())
    return [
        each
        for each in _tree(kind).body
        if isinstance(each, Function) and not each.name.startswith("_")
        if each.name not in left_out and not _is_decorated(each, "setter")
    ]


def _method(kind: type, method: Function) -> str:
    title = f"#### {kind.__name__}.{method.name}"
    text = _words(ast.get_docstring(method))
    if _is_decorated(method, "property") and method.returns is not None:
        return f"{title}\n\n```text\n{method.name}: {_annotation(method.returns)}\n```\n\n{text}"
    before = "classmethod " if _is_decorated(method, "classmethod") else ""
    known = vars(inspect.getmodule(kind))
    signature = _signature(method, f"{before}{method.name}", known, method=True)
    return "\n\n".join([title, signature, text])


def _is_decorated(function: Function, by: str) -> bool:
    return any(ast.unparse(each).rpartition(".")[2] == by for each in function.decorator_list)


def _words(text: str | None) -> str:
    return inspect.cleandoc(text or "").replace("``", "`")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head)]
    lines += [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
