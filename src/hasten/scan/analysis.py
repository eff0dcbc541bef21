"""One file: its outline is made, rules look at it, and what is found is kept with how often its
line runs as far as the file itself tells. A pure function of the text, so that it can be cached;
what other files make hot is added by scan.link."""

import ast
import gc
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import msgspec

from hasten.records.scan import Fix
from hasten.scan.comments import Ignored, ignored_in, statements_at
from hasten.scan.gradients import takes_them_in_forward
from hasten.scan.heat import OUTSIDE, Heat, bare, trains
from hasten.scan.look import Look
from hasten.scan.looking import Asked, Places, Rules
from hasten.scan.outline import Function, Loop, Outline, Site
from hasten.scan.reading import UnreadableError, decode
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name
from hasten.scan.traversal import outline_for
from hasten.scan.vocabulary import words
from hasten.scan.waits import in_vain, may_wait_besides

FOREIGN = (
    "torch", "numpy", "np.", "pandas", "scipy", "sklearn", "os.", "math.", "time.", "logging",
    "json", "re.", "random", "copy", "collections", "itertools", "functools", "warnings", "sys.",
    "transformers", "matplotlib", "einops",
)  # fmt: skip
BUILTINS = frozenset(dir(__import__("builtins")))
EVERYBODYS = words(
    "append extend get items keys values update pop copy to cuda cpu item numpy tolist detach"
    " view reshape size dim sum mean max min float long int format join split strip add write"
    " read close backward step zero_grad train eval parameters state_dict load_state_dict fit"
    " unsqueeze squeeze permute transpose contiguous clone type shape astype startswith endswith"
    " forward __init__ lower upper replace info debug warning error sort index count insert"
)
"""Methods that so many classes have that a call tells nothing of whose it is."""
OF_TORCH = (
    "collate", ".backward()", "Dataset)", "DataLoader)", ".zero_grad(", "nn.Module", ".cuda()",
    ".to(device", ".to(self.device", ".detach()",
)  # fmt: skip
"""What hardly anything but a file of a project that uses torch says."""
OF_CONTAINERS = words("add append extend update get insert forward")
"""But for these the name of what they are called on may tell it."""
ANYBODYS = EVERYBODYS - OF_CONTAINERS


ALL_LINES = 1 << 30
"""Where the module itself ends."""


class Called(msgspec.Struct, frozen=True, array_like=True):
    """A call that may be of a function of the tree."""

    caller: int
    """Index of the function that it stands in."""
    kind: str
    """"name": a function by its dotted name; "self": a method of the caller's class; "method": one
    of any class, with what it is called on before it."""
    name: str
    line: int
    known: Heat
    inner: int
    rare: bool = False
    """Only now and then."""
    gives: bool = False
    """A loop goes over what it gives: if it does so bit by bit, it runs as often as the loop."""
    loop: tuple[int, int] = (0, 0)
    """First and last line of the innermost loop that it stands in."""


class Defined(msgspec.Struct, frozen=True, array_like=True):
    """A function of the file."""

    name: str
    line: int
    end_line: int
    heat: Heat
    """What its name says."""
    assumed: Heat = Heat.ONCE
    """What its parameters say, where nobody is known to call it."""
    is_seldom: bool = False
    is_generator: bool = False
    trains: bool = False
    """Whether it goes back through a model, and not in a loop of its own."""
    takes_gradients: bool = False
    """Whether it is a forward pass that fails where no gradients are recorded."""
    owner: str = ""
    bases: tuple[str, ...] = ()


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """A finding, if its line runs often enough."""

    code: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    function: int
    known: Heat
    inner: int
    rare: bool
    assumes: bool
    least: Heat
    loop: tuple[int, int]
    """First and last line of the innermost loop that is understood; 0 for none."""
    fix: Fix | None
    group: str


class Analysis(msgspec.Struct, frozen=True, array_like=True):
    functions: tuple[Defined, ...]
    called: tuple[Called, ...]
    candidates: tuple[Candidate, ...]
    has_torch: bool
    failure: str = ""
    ignored: Ignored = {}
    statements: dict[int, tuple[int, int]] = {}
    """By the lines of candidates, where something is ignored: first and last line of the statement
    around each."""
    met: tuple[str, ...] = ()
    """Codes of rules of which it is sure that they had something to judge, found or not."""


def analyse_content(content: bytes, rules: Rules) -> Analysis:
    """Of a file, as it lies on the disk."""
    try:
        text = decode(content)
    except UnreadableError as error:
        return _unread(str(error))
    return analyse(text, rules)


def analyse(text: str, rules: Rules) -> Analysis:
    try:
        with _without_collecting():
            return _read(text, rules)
    except UnreadableError as error:
        return _unread(str(error))
    except (RecursionError, MemoryError):
        return _unread("its expressions are nested too deeply to be read")


def _read(text: str, rules: Rules) -> Analysis:
    """A function of its own: with its end the tree is gone, before garbage is looked for again."""
    found = outline_for(rules.wanted, _parse(text))
    analysis = _analyse(found, text, rules)
    found.release()
    return analysis


@contextmanager
def _without_collecting() -> Iterator[None]:
    """A tree is all alive while it grows and is looked at: looking for garbage doubles the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the code that is read, such as "\d" in text
        try:
            return ast.parse(text)
        except SyntaxError as error:
            at = f"line {error.lineno}: " if error.lineno else ""
            raise UnreadableError(f"{at}{error.msg}") from error
        except ValueError as error:  # such as a character that is none
            raise UnreadableError(str(error)) from error


def _unread(failure: str) -> Analysis:
    return Analysis((), (), (), has_torch=False, failure=failure)


def _analyse(found: Outline, text: str, rules: Rules) -> Analysis:
    look = Look(found, text)
    has_torch = _has_torch(found, text)
    numbers = {id(function): number for number, function in enumerate(found.functions)}
    unique: dict[tuple[str, int], Candidate] = {}
    for each in sorted(
        _candidates(rules.asked(found), look, numbers, has_torch),
        key=lambda each: (each.line, each.column, each.code),
    ):
        unique.setdefault((each.code, each.line), each)
    ignored, met = ignored_in(text), rules.met(found)
    lines = {each.line for each in unique.values()} if ignored else ()
    return Analysis(
        functions=tuple(_defined(each, look, has_torch) for each in found.functions),
        called=_called(found, look, numbers),
        candidates=tuple(unique.values()),
        has_torch=has_torch,
        ignored=ignored,
        statements=statements_at(lines, found.tree) if lines else {},
        met=tuple(sorted({rule.code for rule in met if has_torch or not rule.needs_torch})),
    )


FEW_PLACES = 16
"""To look at these takes less time than to look for words in the whole text."""


def _candidates(
    asked: Iterable[tuple[Places, list[Asked]]],
    look: Look,
    numbers: dict[int, int],
    has_torch: bool,
) -> Iterator[Candidate]:
    for places, rules in asked:
        for rule, narrowing, needs_torch, mentions, check in rules:
            if needs_torch and not has_torch:
                continue
            sites = places.all if narrowing is None else places.left(narrowing)
            if mentions and len(sites) > FEW_PLACES and not look.mentions(mentions):
                continue
            try:
                for site in sites:
                    for each in check(site, look):
                        if not mentions or look.mentions(mentions):
                            yield _candidate(each, rule, site, look, numbers)
            except (RecursionError, MemoryError):
                raise
            except Exception as error:  # one file must not cost all others
                what = f"{rule.code} cannot judge line {site.node.lineno}"
                raise UnreadableError(f"{what}, a fault of Hasten: {error!r}") from error


def _has_torch(found: Outline, text: str) -> bool:
    """Whether it works with torch: by what it imports, or by what it defines and calls."""
    if any(each.partition(".")[0] in ("torch", "lightning") for each in _imported(found)):
        return True
    return any(word in text for word in OF_TORCH)


def _imported(found: Outline) -> set[str]:
    body = found.tree.body
    plain = {name.name for node in body if isinstance(node, ast.Import) for name in node.names}
    return plain | set(found.imports.values())


def _candidate(
    found: Found, rule: Rule, site: Site, look: Look, numbers: dict[int, int]
) -> Candidate:
    local = look.local(site)
    node = found.node
    loop = _understood(site.loop, look)
    waits = loop is not None and rule.waits and not found.group
    return Candidate(
        code=rule.code,
        line=node.lineno,  # type: ignore[attr-defined]
        column=look.lines.column(node),
        end_line=node.end_lineno or node.lineno,  # type: ignore[attr-defined]
        end_column=look.lines.end_column(node),
        message=found.message,
        function=numbers[id(site.function)],
        known=local.known,
        inner=local.inner,
        rare=look.is_rare(site),
        assumes=found.assumes,
        least=rule.least if found.least is None else found.least,
        loop=_lines_of(loop),
        fix=in_vain(found.fix) if waits and loop and may_wait_besides(loop, look) else found.fix,
        group=f"waits of the loop at line {loop.line}" if waits and loop else found.group,
    )


def _understood(loop: Loop | None, look: Look) -> Loop | None:
    """The loop that the line is said to run in: the innermost that is understood, else any."""
    around = loop.outwards() if loop else ()
    return next((each for each in around if look.heats.kind_of(each) is not None), loop)


def _defined(function: Function, look: Look, has_torch: bool) -> Defined:
    owner = function.owner
    is_seldom = look.heats.is_seldom(function)
    return Defined(
        name=function.name,
        line=getattr(function.node, "lineno", 1),
        end_line=getattr(function.node, "end_lineno", ALL_LINES),
        heat=look.heats.of_role(function),
        assumed=look.heats.of_use(function) if has_torch and not is_seldom else Heat.ONCE,
        is_seldom=is_seldom,
        is_generator=function.is_generator,
        trains=trains(function),
        takes_gradients=takes_them_in_forward(function, look),
        owner=owner.name if owner else "",
        bases=tuple(base.rpartition(".")[2] for base in owner.bases) if owner else (),
    )


def _called(found: Outline, look: Look, numbers: dict[int, int]) -> tuple[Called, ...]:
    """Each callee once a function, where it is called most often."""
    hottest: dict[tuple[int, str, str, bool], Called] = {}
    of_loop, is_rare = look.heats.of_loop, look.is_rare
    for function in found.functions:
        caller = numbers[id(function)]
        for site in function.calls:
            callees = _callees(site, found)
            if not callees:
                continue
            local = OUTSIDE if site.loop is None else of_loop(site.loop)
            rare = is_rare(site)
            for kind, name in callees:
                key = caller, kind, name, rare
                known = hottest.get(key)
                if known is None or (known.known, known.inner) < (local.known, local.inner):
                    line, lines = site.node.lineno, _lines_of(site.loop)
                    hottest[key] = Called(
                        caller, kind, name, line, local.known, local.inner, rare, loop=lines
                    )
    return (*hottest.values(), *_gone_over(found, look, numbers))


def _lines_of(loop: Loop | None) -> tuple[int, int]:
    return (0, 0) if loop is None else (loop.line, loop.node.end_lineno or loop.line)


def _gone_over(found: Outline, look: Look, numbers: dict[int, int]) -> Iterator[Called]:
    """Calls whose results loops of steps go over."""
    for function in found.functions:
        for loop in function.loops:
            over = bare(loop.header()[1])
            callee = _callee(over.func, function, found) if isinstance(over, ast.Call) else None
            if callee is None:
                continue
            local = look.heats.of_loop(loop)
            if local.known >= Heat.STEP:
                caller, line = numbers[id(function)], over.lineno
                yield Called(caller, *callee, line, local.known, local.inner, gives=True)


def _callees(site: Site, found: Outline) -> list[tuple[str, str]]:
    call: ast.Call = site.node
    function, named = site.function, found.named
    callee = _callee(call.func, function, found)
    callees = [] if callee is None else [callee]
    handed = [*call.args, *[word.value for word in call.keywords]] if call.keywords else call.args
    given: Any
    for given in handed:
        if given.__class__ is ast.Name:
            if given.id in named:
                callees.append(("name", given.id))
        elif given.__class__ is ast.Attribute and _is_own_method(given, function):
            callees.append(("self", given.attr))
    if call.func.__class__ is ast.Name and call.func.id == "map" and call.args:
        callee = _callee(call.args[0], function, found)
        callees += [] if callee is None else [callee]
    return callees


def _callee(called: ast.expr, function: Function, found: Outline) -> tuple[str, str] | None:
    if isinstance(called, ast.Name):
        name = called.id
        if name in BUILTINS:
            return None
        dotted = found.imports.get(name, name)
        return None if _is_foreign(dotted) else ("name", dotted)
    if not isinstance(called, ast.Attribute):
        return None
    base, name = called.value, called.attr
    if isinstance(base, ast.Name):
        if base.id in ("self", "cls") and function.owner is not None:
            return "self", name
        module = found.imports.get(base.id)
        if module is not None:
            return None if _is_foreign(module + ".") else ("name", f"{module}.{name}")
        if name in ANYBODYS or _is_foreign(base.id + "."):
            return None
        return "method", f"{base.id}.{name}"
    if name in ANYBODYS or _is_foreign(found.dotted(called)):
        return None
    return "method", f"{last_name(base)}.{name}"


@lru_cache(maxsize=10_000)
def _is_foreign(dotted: str) -> bool:
    """By its first part, which a "." must follow where it is not the whole."""
    return dotted.startswith(FOREIGN)


def _is_own_method(node: ast.Attribute, function: Function) -> bool:
    """Of what is handed over: it is called by whom it is handed to."""
    owner = function.owner
    return (
        owner is not None
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and node.attr in owner.methods
    )
