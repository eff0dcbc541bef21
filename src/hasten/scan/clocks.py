"""Clocks that a loop reads: they tell something else once it waits no more."""

import ast

from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Loop
from hasten.scan.vocabulary import words

TELLS_ELSE = "a clock that is read after it tells something else"
OF_TIME = words(
    "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns"
    " default_timer"
)
OF_DATES = ("now", "utcnow", "today")
MODULES = ("time.", "timeit.")


def reads_clock(loop: Loop, look: Look) -> bool:
    """Itself, or by a function of the file that it calls."""
    return _reads(loop.node, look) or any(
        _reads(named.node, look)
        for each in walk(loop.node)
        if isinstance(each, ast.Call)
        and (named := look.outline.function_named(look.dotted(each.func))) is not None
    )


def _reads(node: ast.AST, look: Look) -> bool:
    return any(isinstance(each, ast.Call) and _is_clock(each, look) for each in walk(node))


def _is_clock(call: ast.Call, look: Look) -> bool:
    name, dotted = called_name(call), look.dotted(call.func)
    if name in OF_TIME:
        return dotted.startswith(MODULES)
    if name in OF_DATES:
        return "date" in dotted
    return name == "elapsed_time"
