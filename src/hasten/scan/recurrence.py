"""Loops that hand a state from one turn to the next, and what in them does not need it."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hasten.scan.heat import bare, says_few
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.nodes import parts_of, walk
from hasten.scan.outline import Function, Site
from hasten.scan.trace import last_name, names, root_name
from hasten.scan.vocabulary import LAUNCH_NOTHING, words

Places = Sequence[tuple[str, str]]
"""Of what is written at an index."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """``for t in range(n)`` over moments of a tensor, with a state."""

    loop: ast.For
    moment: str
    """The name that counts."""
    cell: ast.Call | None
    """What makes the next state of the last, where it is a layer."""
    state: frozenset[str]

    def parallel(self) -> Iterator[ast.Call]:
        """Calls of layers that need only the moment's inputs, so could run for all at once."""
        follows_state, made = set(self.state), {self.moment}
        for statement in _flat(self.loop.body):
            if not isinstance(statement, ast.Assign):
                continue
            read = set(names(statement.value))
            written = {name for each in statement.targets for name in names(each)}
            if read & follows_state:
                follows_state |= written
                continue
            follows_state -= written
            if read & made:
                made |= written
                for each in walk(statement.value):
                    if isinstance(each, ast.Call) and _is_layer(each, made):
                        yield each


def recurrence(site: Site) -> Recurrence | None:
    """Of a ``for`` in a method, where it is one."""
    loop: ast.For = site.node
    if not isinstance(loop.target, ast.Name) or not _counts(loop.iter):
        return None
    kept: set[str] | None = None
    for statement in _flat(loop.body):
        call, state = _called_with_state(statement)
        if call is None or not state or not _is_layer_of(call.func, site):
            continue
        if goes_over_parts(loop):
            return None
        kept = _kept(loop) if kept is None else kept
        if isinstance(statement, ast.Assign) and state.isdisjoint(kept):
            continue
        if _takes_moments(loop, loop.target.id):
            return Recurrence(loop, loop.target.id, call, frozenset(state | kept))
    return None


def stateful(site: Site, look: Look) -> Recurrence | None:
    """Of a ``for`` over moments, whether a layer or plain operations hand its state on."""
    found = recurrence(site)
    target = site.node.target
    if found is not None or not isinstance(target, ast.Name) or not hands_on(site, look):
        return found
    return Recurrence(site.node, target.id, None, frozenset(_kept(site.node)))


def goes_over_parts(loop: ast.For) -> bool:
    """``for i in range(self.n_layers)``: over what a model is made of, and no moments."""
    return any(map(says_few, (*_said(loop.target), *_said(bare(loop.iter)))))


def _said(node: ast.AST) -> Iterator[str]:
    return (name for name in map(last_name, walk(node)) if name)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A statement of a loop's body: what it reads, what it writes, and what it calls."""

    read: frozenset[str]
    written: frozenset[str]
    calls: tuple[ast.Call, ...]


def carries(site: Site, look: Look) -> str:
    """Of a ``for`` over moments whose state goes through several statements, layers one upon the
    other or lists on its way back to itself: the layer that is called with it once a moment."""
    loop: ast.For = site.node
    if not isinstance(loop.target, ast.Name) or goes_over_parts(loop):
        return ""
    moment = loop.target.id
    if not _goes_over_lengths(loop, site, look) or not _reads_moment(loop, moment, site, look):
        return ""
    if _chooses_layer(loop, moment):
        return ""
    turns = list(_turns(loop.body, moment))
    for state in sorted(_read_early(turns)):
        follows = _reached(turns, {state})
        if state in follows.names and state in _reached(turns, {moment}).names:
            layer = next((each for each in follows.calls if _is_run(each, loop, site)), None)
            if layer is not None:
                return look.source(layer.func)
    return ""


def _chooses_layer(loop: ast.For, moment: str) -> bool:
    """``self.layers[i]``: it counts what the model is made of."""
    for statement in loop.body:
        for each in walk(statement):
            if isinstance(each, ast.Subscript) and moment in names(each.slice):
                root = root_name(each.value)
                if root is not None and root.id == "self":
                    return True
    return False


def _goes_over_lengths(loop: ast.For, site: Site, look: Look) -> bool:
    """``range(n)``, a name that was given one, and the batch sizes of a packed sequence."""
    over = bare(loop.iter)
    if last_name(over).endswith("batch_sizes") or _counts(over):
        return True
    made = look.values.given(over, site.function) if isinstance(over, ast.Name) else None
    return made is not None and any(
        isinstance(each, ast.Call) and _counts(each) for each in walk(made)
    )


def _reads_moment(loop: ast.For, moment: str, site: Site, look: Look) -> bool:
    """Whether a tensor is read at the moment's place, ``x[:, t]`` or ``x[start : start + n]``."""
    is_open = site.function.last_name.startswith("forward")
    for statement in loop.body:
        for each in walk(statement):
            if isinstance(each, ast.Subscript) and moment in names(each.slice):
                if isinstance(each.ctx, ast.Store) or _is_of_self(each.value):
                    continue
                value = look.value(each.value, site)
                if value.is_tensor or (is_open and value.kind == "unknown"):
                    return True
    return False


def _turns(body: list[ast.stmt], moment: str) -> Iterator[_Turn]:
    """In the order in which they run; what is kept in a list is written to it, and what lies at
    the moment's own place no other turn has written."""
    for statement in body:
        match statement:
            case ast.Assign(targets=targets, value=value):
                written = {name for each in targets for name in _written(each)}
                yield _turn(value, written, _places(targets[0], moment))
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=kept), attr="append")) as call
            ):
                yield _turn(ast.Tuple(elts=call.args), {kept})
            case ast.For():
                yield _turn(statement.iter, set(names(statement.target)))
                yield from _turns(statement.body, moment)
            case ast.If() | ast.With():
                yield from _turns(statement.body, moment)
                yield from _turns(getattr(statement, "orelse", []), moment)


def _turn(value: ast.expr, written: set[str], filled: Places = ()) -> _Turn:
    calls = tuple(each for each in walk(value) if isinstance(each, ast.Call))
    return _Turn(frozenset(_read(value, filled)), frozenset(written), calls)


def _read_early(turns: list[_Turn]) -> set[str]:
    """Names that are read before the body writes them, and written after."""
    early: set[str] = set()
    written: set[str] = set()
    for each in turns:
        early |= each.read - written
        written |= each.written
    return early & written


@dataclass(frozen=True, slots=True)
class _Reached:
    names: set[str]
    calls: list[ast.Call]


def _reached(turns: list[_Turn], sources: set[str]) -> _Reached:
    """What one turn computes from these: the names that hold it in the end, and the calls that
    take part."""
    now, calls = set(sources), []
    for each in turns:
        if each.read & now:
            now |= each.written
            calls += [call for call in each.calls if now & set(names(call))]
        else:
            now -= each.written
    return _Reached(now, calls)


def _is_run(call: ast.Call, loop: ast.For, site: Site) -> bool:
    """Whether it is a layer of the object, one of its list of layers, or what the function was
    given to call."""
    called = call.func
    if isinstance(called, ast.Subscript):
        called = called.value
    if _is_layer_of(called, site):
        return True
    if not isinstance(called, ast.Name):
        return False
    inner = (each for part in loop.body for each in walk(part) if isinstance(each, ast.For))
    if any(called.id in names(each.target) and _holds_own(each.iter) for each in inner):
        return True
    function: Function | None = site.function if CELLS.search(called.id) else None
    while function is not None and called.id not in function.parameters:
        function = function.parent
    return function is not None


CELLS = re.compile(r"cell|inner|rnn|lstm|gru|layer|block|core|net$|step")
"""What functions call the layers that they are given."""


def _holds_own(over: ast.expr) -> bool:
    return any(_is_of_self(each) for each in walk(over) if isinstance(each, ast.expr))


def _called_with_state(statement: ast.stmt) -> tuple[ast.Call | None, set[str]]:
    """``h = cell(x, h)`` and ``hs.append(cell(x, hs[-1]))``: the call, and what it hands on."""
    match statement:
        case ast.Assign(targets=targets, value=ast.Call() as call):
            kept = {name for each in targets for name in names(each)}
            return call, kept & {name for each in call.args for name in names(each)}
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id=kept_in), attr="append"),
                args=[ast.Call() as call],
            )
        ):
            return call, {kept_in} if any(_is_last(each, kept_in) for each in call.args) else set()
    return None, set()


def _is_last(node: ast.expr, kept_in: str) -> bool:
    """``hs[-1]``."""
    match node:
        case ast.Subscript(
            value=ast.Name(id=name), slice=ast.UnaryOp(operand=ast.Constant(value=1))
        ):
            return name == kept_in
    return False


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, and those that stand under conditions."""
    for statement in body:
        if isinstance(statement, ast.If | ast.With):
            yield from _flat(statement.body)
            yield from _flat(getattr(statement, "orelse", []))
        else:
            yield statement


def hands_on(site: Site, look: Look) -> str:
    """Of a ``for`` over moments that computes with plain operations: what it hands on, by a name
    or from one index of a tensor to the next. Empty where it hands on no tensor."""
    loop: ast.For = site.node
    if not isinstance(loop.target, ast.Name) or not _counts(loop.iter):
        return _between_slices(loop, site, look)
    if not any(loop.target.id in names(each) for each in loop.body):
        return _iterated(loop, site, look)
    moment = loop.target.id
    by_name = is_backwards(loop.iter) or bool(MOMENT.match(moment))
    if not by_name and not any(_is_indexed(each) for each in loop.body):
        return ""
    read, written = _indexed(loop, moment)
    if any(_is_of_self(each.value) for each in read):
        return ""
    tensors = {last_name(each.value) for each in read if look.value(each.value, site).is_tensor}
    for each in written:
        name = last_name(each.value)
        own = [other for other in read if last_name(other.value) == name]
        shifted = any(_shifts(other.slice, moment) for other in (each, *own))
        if name in tensors and own and shifted:
            return name
    if not tensors or not by_name:
        return ""
    line = 1 + (loop.end_lineno or loop.lineno)
    followed = sorted(_followed(loop, tensors | {moment}) & handed_on(loop))
    open_ = (
        each
        for each in followed
        if look.values.of_name(each, line, site.function).kind not in ("number", "text")
    )
    return next(open_, "")


def is_backwards(over: ast.expr) -> bool:
    """``reversed(range(n))`` and ``range(n - 1, -1, -1)``: only a recurrence needs that order."""
    match over:
        case ast.Call(func=ast.Name(id="reversed")):
            return True
        case ast.Call(args=[_, _, ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))]):
            return True
    return False


def is_parallel(site: Site, look: Look) -> bool:
    """Of a ``for`` over the moments of a tensor: whether it computes each from its own inputs, so
    that all could be computed at once."""
    loop: ast.For = site.node
    if not isinstance(loop.target, ast.Name) or not _counts(loop.iter):
        return False
    if look.is_compiled(site.function):
        return False
    moment = loop.target.id
    if not MOMENT.match(moment) and not _counts_length(loop.iter):
        return False
    read, written = _indexed(loop, moment)
    if not any(
        not _is_of_self(each.value) and look.value(each.value, site).is_tensor for each in read
    ):
        return False
    if handed_on(loop) or _keeps_state(loop):
        return False
    filled = {last_name(each.value) for each in written}
    if any(last_name(each.value) in filled for each in read):
        return False
    return any(_computes_of(each, moment) for each in _flat(loop.body))


def _keeps_state(loop: ast.For) -> bool:
    """Whether a turn may see what another has left: in an attribute, at the end of a list, in a
    layer that remembers; or leaves the loop by what it has found."""
    for statement in loop.body:
        for each in walk(statement):
            match each:
                case ast.Attribute(ctx=ast.Store()) | ast.Break() | ast.Return() | ast.Yield():
                    return True
                case ast.Subscript(slice=ast.UnaryOp(op=ast.USub())):
                    return True
                case ast.Call() if STATEFUL.search(last_name(each.func).lower()):
                    return True
    return False


STATEFUL = re.compile(
    r"cell|rnn|lstm|gru|lif|spik|mem|step|decod|sampl|rand|env|act$|action|forward|solve|backward"
)


def _computes_of(statement: ast.stmt, moment: str) -> bool:
    """Whether it launches kernels for what lies at the moment's place."""
    for each in walk(statement):
        is_kernel = isinstance(each, ast.BinOp) or (
            isinstance(each, ast.Call) and called_name(each) not in LAUNCH_NOTHING
        )
        if is_kernel and any(
            isinstance(part, ast.Subscript) and moment in names(part.slice) for part in walk(each)
        ):
            return not isinstance(each, ast.BinOp) or not isinstance(each.op, ast.Mod)
    return False


def _between_slices(loop: ast.For, site: Site, look: Look) -> str:
    """Of a loop over the moments of a tensor itself: the state that a layer makes of the last."""
    over = bare(loop.iter)
    if isinstance(over, ast.Call):
        if called_name(over) not in ("unbind", "split", "chunk"):
            return ""
        if not (look.is_of_torch(over) or look.value(receiver(over), site).is_tensor):
            return ""
    elif over is not loop.iter or not look.value(over, site).is_tensor:
        return ""
    moment = set(names(loop.target))
    kept = handed_on(loop)
    for statement in _flat(loop.body):
        match statement:
            case ast.Assign(
                targets=[ast.Name() | ast.Tuple() as target], value=ast.Call() as value
            ):
                if called_name(value) in ("cat", "concat", "stack"):
                    continue
                read, written = set(names(value)), set(names(target))
                if moment & read and kept & read & written:
                    return min(kept & read & written)
    return ""


def _iterated(loop: ast.For, site: Site, look: Look) -> str:
    """Of a loop that repeats a computation, as Sinkhorn's and power iterations do: the tensor that
    comes out of one turn and goes into the next. Not where a layer is called or a shape changed."""
    if len(loop.body) > ITERATED or not all(_is_plain(each) for each in loop.body):
        return ""
    kept = handed_on(loop)
    calls = [
        each
        for statement in loop.body
        for each in walk(statement)
        if isinstance(each, ast.Call) and called_name(each) not in LAUNCH_NOTHING
    ]
    if not calls or not all(_is_kernel(each, site, look) for each in calls):
        return ""
    line = loop.end_lineno or loop.lineno
    tensors = (
        each for each in sorted(kept) if look.values.of_name(each, line, site.function).is_tensor
    )
    return next(tensors, "")


ITERATED = 8
"""Statements of a body that is an iteration and no more."""


def _is_plain(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign | ast.AugAssign)


def _is_kernel(call: ast.Call, site: Site, look: Look) -> bool:
    if not look.value(call, site).is_tensor:
        return False
    return look.is_of_torch(call) or look.value(receiver(call), site).is_tensor


MOMENT = re.compile(r"^(t|ti|tt|time|step|timestep|time_step|moment)$")
LENGTH = re.compile(
    r"^(T|seq_?len(gth)?|n_?steps|num_steps|time_?steps|n_?frames|num_frames|max_?len(gth)?"
    r"|(tgt|src|trg|target|source|input|sequence)_?len(gth)?)$"
)
"""How the number of moments is called."""


def _counts_length(over: ast.expr) -> bool:
    """``range(seq_len)`` and ``range(1, seq_len - 1)``."""
    if not isinstance(over, ast.Call) or not 1 <= len(over.args) <= 2:
        return False
    end = over.args[-1]
    if isinstance(end, ast.BinOp) and isinstance(end.right, ast.Constant):
        end = end.left
    return bool(LENGTH.match(last_name(end)))


def _is_indexed(statement: ast.stmt) -> bool:
    """``x[i] = ...``."""
    return isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript)


def _shifts(index: ast.expr, moment: str) -> bool:
    """Whether it reaches the moment before or after: ``t + 1``."""
    return any(
        isinstance(each, ast.BinOp)
        and last_name(each.left) == moment
        and isinstance(each.right, ast.Constant)
        for each in walk(index)
    )


def _indexed(loop: ast.For, moment: str) -> tuple[list[ast.Subscript], list[ast.Subscript]]:
    """What is read and what is written at an index that the loop counts."""
    read: list[ast.Subscript] = []
    written: list[ast.Subscript] = []
    for statement in loop.body:
        for node in walk(statement):
            if isinstance(node, ast.Subscript) and moment in names(node.slice):
                (written if isinstance(node.ctx, ast.Store) else read).append(node)
    return read, written


def _followed(loop: ast.For, sources: set[str]) -> set[str]:
    """Names that are computed from these in the body."""
    found = set(sources)
    for statement in _flat(loop.body):
        if isinstance(statement, ast.Assign) and found & set(names(statement.value)):
            found |= {each.id for each in statement.targets if isinstance(each, ast.Name)}
    return found - sources


def _counts(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in ("range", "reversed", "trange")


def _takes_moments(loop: ast.For, moment: str) -> bool:
    """Whether ``x[:, t]`` is read, as opposed to ``self.layers[t](...)``."""
    reads = False
    for statement in loop.body:
        for node in walk(statement):
            if isinstance(node, ast.Subscript):
                indexes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                if any(last_name(each) == moment for each in indexes):
                    if _is_of_self(node.value):
                        return False
                    reads = True
    return reads


def _is_of_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and last_name(node.value) == "self"


def _is_layer_of(called: ast.expr, site: Site) -> bool:
    owner = site.function.owner
    return _is_of_self(called) and owner is not None and last_name(called) not in owner.methods


def _kept(loop: ast.For) -> set[str]:
    """Names that are read before the body gives them a value."""
    return handed_on(loop) | {
        name
        for statement in _flat(loop.body)
        if isinstance(statement, ast.AugAssign)
        for name in names(statement.target)
    }


def handed_on(loop: ast.For) -> set[str]:
    """Names that are read before the body assigns them; what is only added to is none."""
    written: set[str] = set()
    early: set[str] = set()
    for statement in _flat(loop.body):
        if isinstance(statement, ast.Assign):
            early |= _read_in(statement) - written
            written |= {name for each in statement.targets for name in _written(each)}
    return early & written


def _read_in(statement: ast.Assign) -> set[str]:
    """All names that it reads; of ``total = total + x`` and ``x[i] = x[i] + y`` not what it
    writes."""
    terms, added = [statement.value], []
    while terms:
        each = terms.pop()
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add):
            terms += [each.left, each.right]
        else:
            added.append(each)
    written = statement.targets[0]
    if len(added) > 1 and isinstance(written, ast.Name):
        added = [each for each in added if not isinstance(each, ast.Name) or each.id != written.id]
    filled = _places(written)
    return {name for each in added for name in _read(each, filled)}


def _places(target: ast.expr, moment: str = "") -> Places:
    """Of ``x[i]``, and of each in ``x[i], y[i]``; only those that a moment counts, if any."""
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    counted = [each for each in targets if not moment or moment in names(each)]
    return [place for place in map(_place, counted) if place is not None]


def _read(node: ast.expr, filled: Places) -> Iterator[str]:
    """Names whose values are read: not only their shapes, nor at the places that are written."""
    stack: list[ast.AST] = [node]
    while stack:
        each = stack.pop()
        match each:
            case ast.Name():
                yield each.id
            case ast.Attribute(attr=name) if name in OF_SHAPE:
                continue
            case ast.Subscript() if filled and _place(each) in filled:
                continue
            case _:
                stack += parts_of(each)


def _place(node: ast.expr) -> tuple[str, str] | None:
    """Of ``x[i]``, whether it is read or written."""
    if not isinstance(node, ast.Subscript):
        return None
    return ast.dump(node.slice), ast.dump(node.value)


OF_SHAPE = words("shape device dtype ndim size dim numel new_tensor new_zeros new_ones new_full")


def _written(target: ast.expr) -> Iterator[str]:
    """Names that get a value, and those of what gets one at a place."""
    if isinstance(target, ast.Tuple | ast.List):
        for each in target.elts:
            yield from _written(each)
    else:
        root = root_name(target)
        if root is not None:
            yield root.id


def _is_layer(call: ast.Call, made: set[str]) -> bool:
    return _is_of_self(call.func) and any(made & set(names(each)) for each in call.args)
