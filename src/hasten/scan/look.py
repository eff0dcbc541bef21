"""What a rule may ask about a place in a file."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from hasten.scan import vocabulary
from hasten.scan.heat import OPTIMIZER, Heats, Local
from hasten.scan.lines import Lines
from hasten.scan.nodes import parts_of, walk
from hasten.scan.outline import STEPS, Block, Function, Loop, Outline, Site
from hasten.scan.value import TENSOR, Value
from hasten.scan.values import Values
from hasten.scan.vocabulary import words

QUIET = re.compile(r"no_grad|inference_mode|^eval(uat(e|ion|ing))?(_mode|_context)?$")
"""How contexts and decorators are called under which no gradients are recorded."""
COMPILES = ("njit", "jit", "vectorize", "guvectorize", "numba_jit", "cfunc")
HOST_ONLY = ("scipy.optimize.", "scipy.spatial.", "networkx.", "lap.", "lapjv.")
RARELY = re.compile(
    r"print|verbose|debug|(^|_)save|report|eval(?!ue)|valid(?!_mask)|every|interval|freq|period"
    r"|display|plot|is_main|(^|_)rank|first|profil|warn"
    r"|(^|_)log(s|ger|ging)?$|(^|_)log_(step|iter|loss|metric|grad|train|to|in)|logger",
    re.IGNORECASE,
)

CONVERTS = re.compile(r"^_*(to|as)_(?!device|cuda|gpu)|(^|_)(numpy|cpu|host|item|scalar)$")


DRAWS = re.compile(r"(^|_)(plot|draw|visuali[sz]e|visuals?|figure|render|imshow|tensorboard)(_|$)")


class Look:
    def __init__(self, outline: Outline, text: str) -> None:
        self.outline = outline
        self.text = text
        self.lines = Lines(text)
        self.values = Values(outline)
        self.heats = Heats(outline, self.values)
        self._rare: dict[int, bool] = {}
        self._mentioned: dict[tuple[str, ...], bool] = {}

    def value(self, node: ast.AST | None, site: Site) -> Value:
        """What an expression of the place's function is."""
        return self.values.of(node, site.function)

    def mentions(self, words: tuple[str, ...]) -> bool:
        """Whether one of the words stands in the file."""
        found = self._mentioned.get(words)
        if found is None:
            found = self._mentioned[words] = any(word in self.text for word in words)
        return found

    def dotted(self, node: ast.AST) -> str:
        return self.outline.dotted(node)

    def source(self, node: ast.AST) -> str:
        """The text of an expression, on one line."""
        return " ".join(self.lines.of(node).split())

    def is_on_device(self, node: ast.AST | None, site: Site) -> bool:
        """Whether it is a tensor that may lie on a device; where samples are prepared, one of which
        nothing is known does not."""
        value = self.value(node, site)
        if value.where == "device":
            return value.kind in ("tensor", "batch")
        return value == TENSOR and not self.prepares_data(site)

    def is_only_named(self, node: ast.expr, site: Site) -> bool:
        """Whether it is a parameter that is taken for a tensor for its name alone: where Python
        wants a number it is none, of many values."""
        if not isinstance(node, ast.Name) or not vocabulary.is_tensor_parameter(node.id):
            return False
        binding, scope = self.values.definition(node.id, node.lineno, site.function)
        if binding is not None or scope is None or scope.parameters[node.id].annotation is not None:
            return False
        return node.id not in self.values.parameters.tensor_parameters(scope)

    def is_mask(self, node: ast.AST, site: Site) -> bool:
        """Whether it is a tensor of booleans, as far as the function tells."""
        match node:
            case ast.Call(func=ast.Attribute(value=held, attr=name)) if name in KEEPS_TYPE:
                return self.is_mask(held, site)
            case ast.Call(args=[held, *_]) if called_name(node) in ("rearrange", "repeat"):
                return self.is_mask(held, site)
            case ast.Compare() | ast.Call():
                return gives_booleans(node) and self.value(node, site).kind == "tensor"
            case ast.UnaryOp(op=ast.Invert()):
                return self.is_mask(node.operand, site)
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                return self.is_mask(node.left, site) or self.is_mask(node.right, site)
            case ast.Name():
                return self._is_name_of_mask(node, site)
        return False

    def _is_name_of_mask(self, node: ast.Name, site: Site) -> bool:
        binding, scope = self.values.definition(node.id, node.lineno, site.function)
        if binding is None:
            return scope is not None and "mask" in node.id and self.is_on_device(node, site)
        if binding.value is None or binding.how != "value" or scope is not site.function:
            return False
        return binding.line < node.lineno and self.is_mask(binding.value, site)

    def origin(self, node: ast.expr, site: Site) -> ast.expr:
        """Where a row of methods, indices and arithmetic begins: ``torch.ones(3)`` of
        ``(torch.ones(3) * 2).long()``; a name is followed to what it was given in the function."""
        while True:
            match node:
                case ast.Call(args=[value, *_]) if called_name(node) == "Variable":
                    node = value
                case ast.Call(func=ast.Attribute(value=value)) if not self.is_of_torch(node):
                    node = value
                case ast.BinOp(left=value) | ast.Subscript(value=value):
                    node = value
                case ast.Name():
                    binding, scope = self.values.definition(node.id, node.lineno, site.function)
                    if binding is None or scope is not site.function or binding.how != "value":
                        return node
                    made = binding.value
                    if made is None or (made.end_lineno or binding.line) >= node.lineno:
                        return node
                    node = made
                case _:
                    return node

    def is_of_torch(self, call: ast.Call) -> bool:
        return self.dotted(call.func).startswith("torch.")

    def makes_tensor(self, node: ast.expr) -> bool:
        """Whether it is ``torch.zeros(...)`` or its like, without a device to make it on."""
        if not isinstance(node, ast.Call) or called_name(node) not in MAKERS:
            return False
        return self.is_of_torch(node) and keyword(node, "device") is None

    def is_compiled(self, function: Function) -> bool:
        """Whether Numba or its like makes machine code of it, where loops are cheap."""
        for each in getattr(function.node, "decorator_list", ()):
            called = each.func if isinstance(each, ast.Call) else each
            if self.dotted(called).rpartition(".")[2] in COMPILES:
                return True
        return False

    def needs_host(self, function: Function) -> bool:
        """Whether it calls a library that has nothing for the device, so that copies must be."""
        return any(self.dotted(each.node.func).startswith(HOST_ONLY) for each in function.calls)

    def prepares_data(self, site: Site) -> bool:
        """Whether the place is part of a data set, a collate function or a transform."""
        return self.heats.prepares_data(site.function)

    def calls_in(self, function: Function, *names: str) -> Iterator[Site]:
        """Calls by the last part of what is called, in the order of the file."""
        found = [each for each in function.calls if each.called in names]
        return iter(sorted(found, key=lambda each: (each.node.lineno, each.node.col_offset)))

    def lines_of(self, node: ast.AST) -> str:
        """All text of a statement, comments and all."""
        start, end = self.lines.start(node), self.lines.end(node)
        return self.text[self.lines.line_start(start) : self.lines.line_end(end)]

    def text_of(self, function: Function) -> str:
        is_module = isinstance(function.node, ast.Module)
        return self.text if is_module else self.lines_of(function.node)

    def converts(self, site: Site) -> bool:
        """Whether the function is there to copy to the host: the trouble is with who calls it."""
        return bool(CONVERTS.search(site.function.last_name))

    def draws(self, site: Site) -> bool:
        """Whether the function is there to show something, which is wanted on the host."""
        return bool(DRAWS.search(site.function.last_name))

    def local(self, site: Site) -> Local:
        return self.heats.local(site)

    def loops(self, site: Site) -> Iterator[Loop]:
        """Of the place's function, from the inside."""
        return site.loop.outwards() if site.loop is not None else iter(())

    def is_rare(self, site: Site) -> bool:
        """Whether an ``if`` lets it run only now and then: every so many steps, or to log; also
        whether it only prepares an error."""
        if isinstance(site.statement, ERRORS):
            return isinstance(site.statement, ast.Raise)
        block = site.block
        if block is None:
            return False
        known = self._rare.get(id(block))
        return self._runs_rarely(block, site) if known is None else known

    def _runs_rarely(self, block: Block, site: Site) -> bool:
        known = self._rare.get(id(block))
        if known is None:
            known = self._rare[id(block)] = self._lets_rarely(block, site) or (
                block.parent is not None
                and not self._is_known_loop(block.node, site)
                and self._runs_rarely(block.parent, site)
            )
        return known

    def _is_known_loop(self, node: ast.AST, site: Site) -> bool:
        return any(
            each.node is node and self.heats.kind_of(each) is not None for each in self.loops(site)
        )

    def _lets_rarely(self, block: Block, site: Site) -> bool:
        node = block.node
        if isinstance(node, ast.If) and block.branch == "body":
            return self.is_seldom(node) or _happens_once(node) or _begins(node, site)
        return isinstance(node, ast.ExceptHandler)

    def is_seldom(self, node: ast.If) -> bool:
        """``if step % 100 == 0``, ``if verbose``, ``if not isfinite(loss)``; but what trains every
        so many steps is a step itself, and so is what asks whether ``self.training``."""
        if not _asks_for_few(node.test) or any(map(_trains, node.body)):
            return False
        return not any(
            isinstance(each, ast.Attribute) and each.attr == "training"
            for each in _asked(node.test)
        )

    def without_grad(self, site: Site) -> bool:
        """Whether no gradient is recorded there, as far as the function itself tells."""
        function: Function | None = site.function
        while function is not None:
            decorators = getattr(function.node, "decorator_list", [])
            if any(self._says_no_grad(each) for each in decorators):
                return True
            function = function.parent
        for block in site.block.outwards() if site.block is not None else ():
            if isinstance(block.node, ast.With) and any(
                self._says_no_grad(item.context_expr) for item in block.node.items
            ):
                return True
        return False

    def _says_no_grad(self, node: ast.expr) -> bool:
        called = node.func if isinstance(node, ast.Call) else node
        if QUIET.search(self.dotted(called).rpartition(".")[2]):
            return True
        return called_name(node) == "set_grad_enabled" and is_constant(
            argument(node, 0, "mode") if isinstance(node, ast.Call) else None, False
        )


@lru_cache(maxsize=10_000)
def _says_rarely(name: str) -> bool:
    return RARELY.search(name) is not None


ERRORS = (ast.Raise, ast.Assert)
FINITE = ("isnan", "isinf", "isfinite")


def _asks_for_few(test: ast.expr) -> bool:
    """Whether a word or a remainder in a condition says that it holds now and then."""
    for each in _asked(test):
        if isinstance(each, ast.Name):
            if _says_rarely(each.id):
                return True
        elif isinstance(each, ast.Attribute):
            if _says_rarely(each.attr):
                return True
        elif isinstance(each, ast.Call):
            if called_name(each) in FINITE:
                return True
        elif isinstance(each, (ast.Compare, ast.BinOp)):
            match each:
                case ast.Compare(left=ast.BinOp(op=ast.Mod()), ops=[ast.NotEq()]):
                    return False  # mostly so
                case ast.BinOp(op=ast.Mod(), right=period):
                    if _is_long(period):
                        return True
    return False


def _asked(test: ast.expr) -> Iterator[ast.AST]:
    """All of a condition, but for what only must be there: ``logger is not None``."""
    open_: list[Any] = [test]
    while open_:
        each = open_.pop()
        if each.__class__ is ast.Compare and each.ops[0].__class__ is ast.IsNot:
            match each:
                case ast.Compare(ops=[_], comparators=[ast.Constant(value=None)]):
                    continue
        yield each
        open_ += parts_of(each)


OFTEN = 8
"""What runs once in fewer turns does not run rarely."""


def _is_long(period: ast.expr) -> bool:
    """Unless it is a number, which is small."""
    if not isinstance(period, ast.Constant) or not isinstance(period.value, int):
        return True
    return period.value >= OFTEN


def _trains(statement: ast.stmt) -> bool:
    """Whether it goes back through a model or steps an optimizer, and is no loop that does."""
    match statement:
        case ast.Expr(value=call) | ast.Assign(value=call):
            return called_name(call) in STEPS or _updates(call)
        case ast.If(body=body) | ast.With(body=body):
            return any(map(_trains, body))
    return False


def _updates(call: ast.expr) -> bool:
    """``optimizer.step()`` and ``scaler.step(optimizer)``."""
    if not isinstance(call, ast.Call) or called_name(call) != "step":
        return False
    about = [call.func, *call.args[:1]]
    return any(OPTIMIZER.search(each) for one in about for each in names_in(one))


def _happens_once(node: ast.If) -> bool:
    """``if self.first is None: self.first = ...`` and ``if not hasattr(self, "first"): ...``"""
    match node.test:
        case (
            ast.Compare(
                left=ast.Attribute(attr=name),
                ops=[ast.Is()],
                comparators=[ast.Constant(value=None)],
            )
            | ast.UnaryOp(
                op=ast.Not(),
                operand=ast.Call(
                    func=ast.Name(id="hasattr"), args=[_, ast.Constant(value=str(name))]
                )
                | ast.Attribute(attr=name),
            )
        ):
            return any(_sets(name, statement) for statement in node.body)
    return False


def _sets(name: str, statement: ast.stmt) -> bool:
    """Whether it gives an attribute of the name a value, or asks ``self`` to prepare something."""
    match statement:
        case ast.Assign(targets=targets):
            return any(isinstance(each, ast.Attribute) and each.attr == name for each in targets)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=called))):
            return PREPARES.search(called) is not None
    return False


PREPARES = re.compile(
    r"^_*(lazy_?)?(set_?up|init|initiali[sz]e|open|load|build|prepare|create|read)"
)


def _begins(node: ast.If, site: Site) -> bool:
    """``if total is None: total = ...`` in the first turn of a loop that begins after ``total =
    None``."""
    match node.test:
        case ast.Compare(
            left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]
        ):
            loop = site.loop
            if loop is None or not _is_given(name, node.body):
                return False
            within = [each for each in site.function.bindings[name] if loop.holds(each.line)]
            return not any(is_constant(each.value, None) for each in within)
    return False


def _is_given(name: str, body: list[ast.stmt]) -> bool:
    return any(
        isinstance(statement, ast.Assign)
        and any(isinstance(each, ast.Name) and each.id == name for each in statement.targets)
        for statement in body
    )


MAKERS = vocabulary.MADE_ON_HOST - {"from_numpy", "as_tensor"}
"""What a tensor of its own is made with, not of one that there is."""
KEEPS_TYPE = words(
    "view reshape flatten squeeze unsqueeze expand expand_as repeat transpose permute t contiguous"
    " clone detach cuda scatter_ fill_ masked_fill masked_fill_ index_fill_ flip roll"
)
"""Methods of a tensor that leave booleans what they are."""
COMPARISONS = words(
    "isnan isinf isfinite eq ne lt gt le ge isin bool logical_and logical_or logical_not"
    " logical_xor"
)


def gives_booleans(node: ast.Compare | ast.Call) -> bool:
    if isinstance(node, ast.Compare):
        return True
    name = called_name(node)
    if name in ("any", "all"):
        return bool(node.args or node.keywords)
    dtype = keyword(node, "dtype")
    return name in COMPARISONS or (isinstance(dtype, ast.Attribute) and dtype.attr == "bool")


def called_name(node: ast.AST | None) -> str:
    """``item`` of ``x.item()``; empty for a call of what another call gives, and for no call."""
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Attribute):
            return called.attr
        if isinstance(called, ast.Name):
            return called.id
    return ""


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == name), None)


def argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    """Given by place or by name."""
    return call.args[place] if len(call.args) > place else keyword(call, name)


def is_constant(node: ast.AST | None, value: object) -> bool:
    return (
        isinstance(node, ast.Constant) and node.value == value and type(node.value) is type(value)
    )


def names_in(node: ast.AST) -> Iterator[str]:
    """All identifiers of a small expression."""
    for each in walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr


def is_own_attribute(node: ast.AST | None) -> bool:
    """Whether it is ``self.NAME``."""
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def assigned(site: Site) -> ast.expr | None:
    """What the place's statement gives its targets."""
    statement = site.statement
    return statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None


def is_within(site: Site, block: Block | None) -> bool:
    """Whether the place stands in that block or in one of its own."""
    if block is None:
        return True
    return site.block is not None and any(each is block for each in site.block.outwards())


def are_alternatives(one: Site, other: Site) -> bool:
    """Whether a condition lets only one of them run."""
    if one.block is None or other.block is None:
        return False
    branches = {id(each.node): each.branch for each in other.block.outwards()}
    return any(
        isinstance(each.node, ast.If) and branches.get(id(each.node), each.branch) != each.branch
        for each in one.block.outwards()
    )


def receiver(call: ast.Call) -> ast.expr | None:
    """``x`` of ``x.item()``."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def is_said_above(site: Site) -> bool:
    """Whether another call of the name stands on an earlier line of the statement: one that waits
    waits for this one too."""
    first, here = site.statement.lineno, site.node.lineno
    name = site.called
    return first < here and any(
        first <= each.node.lineno < here and each.called == name for each in site.function.calls
    )
