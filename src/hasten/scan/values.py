"""What is this expression? A tensor, a loader, an optimizer: worked out where a rule asks.

Names are followed to what they were last given above the line, attributes of ``self`` to what any
method gives them, calls to torch's vocabulary or to a function of the same file. What stays unknown
is said to be unknown, and rules are then silent.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Any

from hasten.scan import vocabulary
from hasten.scan.called_names import ByArguments, makes_tensor, told_by_last_name, told_by_name
from hasten.scan.moves import moves_to_device, of_tensor_method
from hasten.scan.outline import Binding, Class, Function, Outline
from hasten.scan.signs import TENSORS, Parameters, by_name, may_give_tensor, of_annotation
from hasten.scan.trace import last_name, root_name
from hasten.scan.value import (
    ARRAY,
    DEVICE_TENSOR,
    HOST_TENSOR,
    LOADER,
    NONE,
    NUMBER,
    TENSOR,
    UNKNOWN,
    Kind,
    Value,
    Where,
)

DEPTH = 24
"""Names that are followed one after the other."""
WHOLE = DEPTH + 2
"""Further in than anything is followed: nothing was cut off."""
MODULES = ("torch.", "numpy.", "np.", "pandas.", "pd.", "math.", "scipy.", "sklearn.", "cv2.")
"""Functions of these are no methods."""
OUTWEIGHS: tuple[Kind, ...] = ("array", "frame", "text")
"""What an operation gives as soon as one of its operands is such, the first of these before all."""
MODULE_BASES = ("Module", "LightningModule", "PreTrainedModel", "ModuleList", "Sequential")


class Values:
    """Of one file."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._known: dict[tuple[ast.AST, Function], Value] = {}
        self._following: dict[ast.AST, int] = {}
        """What is being worked out, by place, and how many others are around it."""
        self._passing: dict[tuple[ast.AST, Function], tuple[Value, int]] = {}
        """What holds while the outermost is worked out: it was cut off where it led back to what is
        around it, and asked for by itself it may come to more. With how far out it led."""
        self._cut = WHOLE
        """How far out what was just worked out led back."""
        self._asked: dict[int, list[tuple[str, int, int]]] = {}
        self.parameters = Parameters(outline)

    def of(self, node: ast.AST | None, function: Function) -> Value:
        if node is None:
            return UNKNOWN
        find = _FINDERS.get(node.__class__)
        if find is None:
            return _of_constant(node) if isinstance(node, ast.Constant) else UNKNOWN
        key = node, function
        known = self._known.get(key)
        if known is not None:
            return known
        following = self._following
        depth = len(following)
        if depth and key in self._passing:
            known, cut = self._passing[key]
            self._cut = min(self._cut, cut)
            return known
        if node in following or depth > DEPTH:
            self._cut = min(self._cut, following.get(node, 0))
            return UNKNOWN
        around, self._cut = self._cut, WHOLE
        following[node] = depth
        try:
            found = find(self, node, function)
        finally:
            del following[node]
        if self._cut >= depth:
            self._known[key] = found
            self._cut = around
        else:
            self._passing[key] = found, self._cut
            self._cut = min(around, self._cut)
        if not depth:
            self._passing.clear()
        return found

    def is_module(self, owner: Class) -> bool:
        """Whether the class is a torch module, by its bases or those of a class of this file."""
        seen: set[str] = set()
        open_ = list(owner.bases)
        while open_:
            base = open_.pop()
            last = base.rpartition(".")[2]
            if last in MODULE_BASES or base.startswith("torch.nn."):
                return True
            if last not in seen and last in self._outline.classes:
                seen.add(last)
                open_ += self._outline.classes[last].bases
        if any(
            base.rpartition(".")[2].endswith(("Module", "Layer", "Loss", "Net"))
            for base in owner.bases
        ):
            return True
        init = owner.methods.get("__init__")
        return "forward" in owner.methods and init is not None

    def of_name(self, name: str, line: int, function: Function) -> Value:
        if name in vocabulary.ON_HOST:
            return HOST_TENSOR
        binding, scope = self.definition(name, line, function)
        found = _as_named(name, self._of_definition(name, binding, scope), binding)
        if found.kind not in ("tensor", "batch") and self._is_asked_for(
            name, line, binding, function
        ):
            return TENSOR
        return found

    def _of_definition(self, name: str, binding: Binding | None, scope: Function | None) -> Value:
        if scope is None:
            return by_name(name)
        if binding is None:
            return self.parameters.of(name, scope, self)
        found = self._of_binding(binding, scope)
        if found.kind == "none":
            return self._of_others(name, binding, scope)
        if found == NUMBER and isinstance(binding.value, ast.Constant):
            return self._of_sum(name, binding, scope)
        return found if found.kind != "unknown" else self._of_same(name, binding, scope)

    def _is_asked_for(
        self, name: str, line: int, binding: Binding | None, function: Function
    ) -> bool:
        """Whether the line stands under ``if isinstance(name, Tensor)``."""
        called = function.called
        if "isinstance" not in called and "is_tensor" not in called:
            return False
        asked = self._asked.get(id(function))
        if asked is None:
            asked = self._asked[id(function)] = list(_asked_for_tensors(function))
        return bool(asked) and any(
            name == other
            and start <= line <= end
            and (binding is None or not start <= binding.line < line)
            for other, start, end in asked
        )

    def _of_others(self, name: str, binding: Binding, scope: Function) -> Value:
        """Of what a name is given where it is not given ``None``."""
        for each in scope.bindings[name]:
            if each is not binding and each.within is None and each.how != "changed":
                found = self._of_binding(each, scope)
                if found.kind not in ("unknown", "none"):
                    return found
        return NONE

    def _of_sum(self, name: str, binding: Binding, scope: Function) -> Value:
        """``total = 0.0`` becomes a tensor by ``total += loss``."""
        for each in scope.bindings[name]:
            if each.how == "changed" and each.line > binding.line:
                added = self._of_binding(each, scope)
                if added.kind == "tensor":
                    return added
        return NUMBER

    def _of_same(self, name: str, binding: Binding, scope: Function) -> Value:
        """``x, y = prepared(x, y)``: what keeps its name mostly stays what it was. And a loss is
        what a function gives that computes one."""
        call = binding.value
        if binding.how not in ("value", "item") or not isinstance(call, ast.Call):
            return UNKNOWN
        called = last_name(call.func)
        if name.endswith("loss") and vocabulary.COMPUTES_LOSS.search(called):
            return TENSOR
        if not may_give_tensor(called):
            return UNKNOWN
        for each in call.args:
            if isinstance(each, ast.Name) and each.id == name:
                found = self.of(each, scope)
                return found if found.kind in ("tensor", "batch") else UNKNOWN
        return UNKNOWN

    def definition(
        self, name: str, line: int, function: Function
    ) -> tuple[Binding | None, Function | None]:
        """What gave the name its value, and in which function; a parameter has no binding."""
        scope: Function | None = function
        while scope is not None:
            bindings = scope.bindings.get(name)
            binding = (
                _latest(bindings, line if scope is function else 1 << 30) if bindings else None
            )
            if binding is not None and not (
                name in scope.parameters and scope is function and _is_later(binding, line)
            ):
                return binding, scope
            if name in scope.parameters:
                return None, scope
            scope = scope.parent
        return None, None

    def given(self, node: ast.AST | None, function: Function) -> ast.expr | None:
        """The expression that a name or an attribute of ``self`` was last given, names followed;
        any other expression itself."""
        for _ in range(DEPTH):
            match node:
                case ast.Name():
                    binding, _ = self.definition(node.id, node.lineno, function)
                case ast.Attribute(value=ast.Name(id="self")) if function.owner is not None:
                    plain = (each for each, _ in function.owner.attributes.get(node.attr, ()))
                    binding = next((each for each in plain if each.value is not None), None)
                case ast.expr():
                    return node
                case _:
                    return None
            if binding is None or binding.how != "value":
                return None
            node = binding.value
        return None

    def of_attribute(self, owner: Class, name: str) -> Value:
        """Of ``self.NAME``: the first that tells, but what is ever moved to a device lies there."""
        first = None
        for binding, function in owner.attributes.get(name, ()):
            if binding.how == "changed":
                continue
            found = self._of_binding(binding, function)
            if found.kind in ("unknown", "none"):
                continue
            if found != HOST_TENSOR and (first is None or found == DEVICE_TENSOR):
                return found
            first = first or found
        if first is None:
            first = self._of_declared(owner, name)
        return first if first.kind != "unknown" else by_name(name)

    def _of_declared(self, owner: Class, name: str) -> Value:
        """Of an attribute that no method gives a value: by its annotation, as a property, or by
        a class of this file that the class is derived from."""
        if name in owner.said:
            return self._of_said(owner.said[name])
        method = owner.methods.get(name)
        if method is not None:
            return self._of_returns(method) if _is_property(method) else UNKNOWN
        above = self._base_of(owner)
        if above is None:
            return UNKNOWN
        set_up = [
            each for each in above.attributes.get(name, ()) if each[1].last_name == "__init__"
        ]
        return self._of_binding(*set_up[0]) if set_up else self._of_declared(above, name)

    def _base_of(self, owner: Class) -> Class | None:
        """The first class of this file, above its own line, that it is derived from."""
        for each in owner.bases:
            found = self._outline.classes.get(each.rpartition(".")[2])
            if found is not None and found.node.lineno < owner.node.lineno:
                return found
        return None

    def _method(self, owner: Class | None, name: str) -> Function | None:
        while owner is not None:
            if name in owner.methods:
                return owner.methods[name]
            owner = self._base_of(owner)
        return None

    def _class_of(self, node: ast.AST, function: Function) -> Class | None:
        """The class of this file of which it is an object."""
        if not self._outline.classes:
            return None
        said: ast.AST | None = None
        match node:
            case ast.Name():
                binding, scope = self.definition(node.id, node.lineno, function)
                if binding is None and scope is not None:
                    said = scope.parameters[node.id].annotation
            case ast.Attribute(value=ast.Name(id="self")) if function.owner is not None:
                given = function.owner.attributes.get(node.attr)
                binding = given[0][0] if given else None
                said = function.owner.said.get(node.attr)
            case _:
                return None
        if binding is not None:
            made = binding.value if binding.how in ("value", "with") else None
            said = made.func if isinstance(made, ast.Call) else binding.said
        if isinstance(said, ast.Constant) and isinstance(said.value, str):
            return self._outline.classes.get(said.value)
        return self._outline.classes.get(last_name(said))

    def _of_plain_name(self, node: ast.Name, function: Function) -> Value:
        return self.of_name(node.id, node.lineno, function)

    def _of_binary(self, node: ast.BinOp, function: Function) -> Value:
        return self._of_operation([node.left, node.right], function)

    def _of_comparison(self, node: ast.Compare, function: Function) -> Value:
        if any(isinstance(each, ast.Is | ast.IsNot | ast.In | ast.NotIn) for each in node.ops):
            return NUMBER
        return self._of_operation([node.left, *node.comparators], function)

    def _of_unary(self, node: ast.UnaryOp, function: Function) -> Value:
        return NUMBER if isinstance(node.op, ast.Not) else self.of(node.operand, function)

    def _of_choice(self, node: ast.IfExp, function: Function) -> Value:
        found = self.of(node.body, function)
        return found if found.kind != "unknown" else self.of(node.orelse, function)

    def _of_row(self, node: ast.List | ast.Tuple, function: Function) -> Value:
        first = self.of(node.elts[0], function) if node.elts else UNKNOWN
        return Value("list", first.where, first.kind)

    def _of_comprehension(self, node: ast.ListComp | ast.GeneratorExp, function: Function) -> Value:
        each = self.of(node.elt, function)
        return Value("list", each.where, each.kind)

    def _of_dict(self, node: ast.Dict, function: Function) -> Value:
        held = next((each for each in node.values if each is not None), None)
        first = self.of(held, function)
        return Value("dict", first.where, first.kind)

    def _of_dict_comprehension(self, node: ast.DictComp, function: Function) -> Value:
        each = self.of(node.value, function)
        return Value("dict", each.where, each.kind)

    def _of_any_or_all(self, node: ast.BoolOp, function: Function) -> Value:
        return self._of_operation(node.values, function)

    def _of_text(self, node: ast.JoinedStr, function: Function) -> Value:
        return TEXT

    def _of_inner(self, node: ast.NamedExpr | ast.Starred | ast.Await, function: Function) -> Value:
        return self.of(node.value, function)

    def _of_operation(self, operands: list[ast.expr], function: Function) -> Value:
        found = [self.of(each, function) for each in operands]
        tensors = [each for each in found if each.kind in ("tensor", "batch")]
        if tensors:
            places = {each.where for each in tensors}
            where: Where = (
                "device" if "device" in places else "unknown" if "unknown" in places else "host"
            )
            return Value("tensor", where)
        kinds = [each.kind for each in found]
        for kind in OUTWEIGHS:
            if kind in kinds:
                return found[kinds.index(kind)]
        return NUMBER if all(kind == "number" for kind in kinds) else UNKNOWN

    def _of_subscript(self, node: ast.Subscript, function: Function) -> Value:
        base = self.of(node.value, function)
        match base.kind:
            case "unknown":
                if isinstance(node.slice, ast.Constant):
                    return _of_key(node.value, node.slice.value)
                index = self.of(node.slice, function)
                return Value("tensor", index.where) if index.kind == "tensor" else UNKNOWN
            case "tensor" | "array" | "frame":
                return base
            case "batch":
                return Value("tensor", base.where)
            case "list" | "dict":
                if isinstance(node.slice, ast.Slice):
                    return base
                if base.items == "unknown" and isinstance(node.slice, ast.Constant):
                    return _of_key(node.value, node.slice.value)
                return Value(base.items, base.where) if base.items != "unknown" else UNKNOWN
            case "text":
                return base
        return UNKNOWN

    def _of_attribute(self, node: ast.Attribute, function: Function) -> Value:
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            owner = function.owner
            return self.of_attribute(owner, node.attr) if owner is not None else by_name(node.attr)
        if node.attr in vocabulary.ON_HOST:
            return HOST_TENSOR
        base = self.of(node.value, function)
        if base.kind == "tensor":
            if node.attr in vocabulary.ATTRIBUTES_OF_TENSORS or node.attr.endswith(
                vocabulary.PARTS_OF_RESULTS
            ):
                return base
            return (
                Value("device")
                if node.attr == "device"
                else NUMBER
                if node.attr == "ndim"
                else UNKNOWN
            )
        if base.kind == "array":
            return NUMBER if node.attr in ("ndim", "size") else base
        if base.kind == "frame" and node.attr in ("loc", "iloc", "values"):
            return ARRAY if node.attr == "values" else base
        if base.kind == "batch" and node.attr not in ("keys", "items"):
            return Value("tensor", base.where)
        if node.attr in ("logits", "loss", "last_hidden_state"):
            return TENSOR
        if base.kind == "unknown" and (owner := self._class_of(node.value, function)) is not None:
            return self.of_attribute(owner, node.attr)
        if node.attr == "weight" and isinstance(node.value, ast.Attribute):
            return TENSOR  # of a layer: ``self.embedding.weight``
        return by_name(node.attr)

    def _of_call(self, node: ast.Call, function: Function) -> Value:
        called = node.func
        dotted = self._outline.dotted(called)
        if isinstance(called, ast.Attribute) and not dotted.startswith(MODULES):
            known = self._of_method(node, called, dotted, function)
            if known is not None:
                return known
        named = self._of_named_call(node, dotted, function)
        if named is not None:
            return named
        own = self._of_own_call(called, function)
        if own.kind != "unknown":
            return own
        told = told_by_last_name(last_name(called))
        return told if told.kind != "unknown" else self._of_foreign_call(node, dotted, function)

    def _of_foreign_call(self, node: ast.Call, dotted: str, function: Function) -> Value:
        """Of a function of another file that is given tensors: it mostly gives some."""
        base, _, name = dotted.rpartition(".")
        if makes_tensor(name):
            return self._of_maker(node, function)
        if not may_give_tensor(name):
            return UNKNOWN
        if base == "self":
            owner = function.owner
            if owner is None or name in owner.methods or not self.is_module(owner):
                return UNKNOWN
            if any(self.of(each, function).is_tensor for each in node.args):
                return DEVICE_TENSOR  # of a part of the module, or of one that it is derived from
            return UNKNOWN
        root = root_name(node.func) if dotted else None
        if dotted.startswith(MODULES) or root is None or root.id not in self._outline.imports:
            return UNKNOWN
        given = [each for each in (self.of(each, function) for each in node.args) if each.is_tensor]
        if not given:
            return UNKNOWN
        places = {each.where for each in given}
        return Value("tensor", places.pop() if len(places) == 1 else "unknown")

    def _of_maker(self, node: ast.Call, function: Function) -> Value:
        """Of a function that makes a tensor of an array: it lies where that lay."""
        if any(word.arg == "device" for word in node.keywords):
            return DEVICE_TENSOR
        given = self.of(node.args[0], function) if node.args else UNKNOWN
        return HOST_TENSOR if given.kind == "array" or given == HOST_TENSOR else UNKNOWN

    def _of_method(
        self, node: ast.Call, called: ast.Attribute, dotted: str, function: Function
    ) -> Value | None:
        """None where the receiver does not tell."""
        name = called.attr
        base = self.of(called.value, function)
        is_open = base.items == "unknown" and base.kind in ("unknown", "dict")
        if is_open and name in ("get", "pop"):
            key = node.args[0] if node.args else None
            if isinstance(key, ast.Constant) and not _is_flag(node.args[-1]):
                return _of_key(called.value, key.value)
        if base.kind == "unknown":
            if name == "cpu":
                return HOST_TENSOR
            if name in ("to", "cuda") and self._is_of_batch(called.value, function):
                return DEVICE_TENSOR if moves_to_device(node) else UNKNOWN
            if name in vocabulary.ONLY_TENSORS_HAVE:
                base = TENSOR
            if name in vocabulary.DRAWN_WITH and vocabulary.GENERATORS.search(
                dotted.rpartition(".")[0]
            ):
                return NUMBER if _draws_number(node, name) else ARRAY
        match base.kind:
            case "tensor":
                return of_tensor_method(base, name, node)
            case "batch":
                if name in ("to", "cuda"):
                    return Value("batch", "device")
                if name in ("get", "pop"):
                    return Value("tensor", base.where)
                if name in vocabulary.TENSOR_METHODS and base.where != "host":
                    return of_tensor_method(Value("tensor", base.where), name, node)
                return None
            case "module":
                if name in ("to", "cuda", "cpu", "eval", "train", "half", "float", "double"):
                    return base
                if name in ("parameters", "named_parameters", "state_dict", "modules"):
                    return Value("list")
                return Value("tensor", "device") if name == "forward" else None
            case "array":
                return NUMBER if name in ("item", "tolist") else ARRAY
            case "frame":
                return (
                    ARRAY
                    if name in ("to_numpy", "values")
                    else Value("list")
                    if name == "tolist"
                    else base
                )
            case "dict":
                if name in ("values", "items", "get", "pop"):
                    return (
                        Value("list", base.where, base.items)
                        if name in ("values", "items")
                        else Value(base.items, base.where)
                    )
            case "list" | "text" | "number":
                return UNKNOWN if name != "join" else Value("text")
        if name == "numpy":
            return ARRAY
        return None

    def _is_of_batch(self, node: ast.expr, function: Function) -> bool:
        """Whether it is a part of what is called a batch, or has the name of such a part."""
        if not isinstance(node, ast.Name):
            return False
        binding, scope = self.definition(node.id, node.lineno, function)
        if binding is None:
            return scope is not None and vocabulary.is_tensor_parameter(node.id)
        return binding.how == "item" and last_name(binding.value) in vocabulary.BATCHES

    def _of_named_call(self, node: ast.Call, dotted: str, function: Function) -> Value | None:
        told = told_by_name(dotted)
        if told is None or isinstance(told, Value):
            return told
        return _BY_ARGUMENTS[told](self, node, dotted, function)

    def _of_parts(self, node: ast.Call, dotted: str, function: Function) -> Value:
        where = self.of(node.args[0], function).where if node.args else "unknown"
        return Value("list", where, "tensor")

    def _of_loader(self, node: ast.Call, dotted: str, function: Function) -> Value:
        return Value("loader", self._place_of_rows(node, function))

    def _of_dataset(self, node: ast.Call, dotted: str, function: Function) -> Value:
        return Value("dataset", self._place_of_rows(node, function))

    def _of_numpy(self, node: ast.Call, dotted: str, function: Function) -> Value:
        module, _, last = dotted.rpartition(".")
        is_drawn = module.endswith(".random") and _draws_number(node, last)
        return NUMBER if is_drawn or _is_of_number(node, last) else ARRAY

    def _of_listed(self, node: ast.Call, dotted: str, function: Function) -> Value:
        held = self.of(node.args[0], function) if node.args else UNKNOWN
        is_tensor = held.kind in ("tensor", "batch")
        return Value("list", held.where, "tensor" if is_tensor else held.items)

    def _of_one(self, node: ast.Call, dotted: str, function: Function) -> Value | None:
        """``sum(xs)`` and ``max(xs)`` are what one of them is."""
        if not node.args:
            return None
        held = self.of(node.args[0], function)
        return Value(held.items if held.kind == "list" else held.kind, held.where)

    def _of_next(self, node: ast.Call, dotted: str, function: Function) -> Value | None:
        if not node.args:
            return None
        inner = self.of(node.args[0], function)
        return Value("batch", inner.where) if inner.kind == "loader" else UNKNOWN

    def _of_given(self, node: ast.Call, dotted: str, function: Function) -> Value | None:
        return self.of(node.args[0], function) if node.args else None

    def _place_of_rows(self, node: ast.Call, function: Function) -> Where:
        """Of a loader or a data set: of tensors that lie on the device come batches that do."""
        held = self.of(node.args[0], function) if node.args else UNKNOWN
        is_there = held.where == "device" and held.kind in ("tensor", "dataset")
        return "device" if is_there else "host"

    def _of_torch_function(self, node: ast.Call, dotted: str, function: Function) -> Value:
        name = dotted.rpartition(".")[2]
        device = next((word.value for word in node.keywords if word.arg == "device"), None)
        if device is not None:
            return self._made_on(device, function)
        places = set()
        for each in node.args:
            value = self.of(each, function)
            if value.kind in ("tensor", "batch", "list"):
                places.add(value.where)
        if "device" in places:
            return DEVICE_TENSOR
        if name == "as_tensor" and self._is_said_to_be_tensor(node, function):
            return TENSOR
        if name in vocabulary.MADE_ON_HOST:
            return HOST_TENSOR
        return HOST_TENSOR if places == {"host"} else TENSOR

    def _is_said_to_be_tensor(self, node: ast.Call, function: Function) -> bool:
        """Whether what it is given is annotated as a tensor: then that is left where it lies."""
        given = node.args[0] if node.args else None
        said = function.parameters.get(given.id) if isinstance(given, ast.Name) else None
        if said is None or said.annotation is None:
            return False
        return self._of_said(said.annotation) == TENSOR

    def _made_on(self, device: ast.expr, function: Function) -> Value:
        """On that device, or beside another tensor."""
        match device:
            case ast.Constant(value="cpu"):
                return HOST_TENSOR
            case ast.Attribute(value=beside, attr="device"):
                value = self.of(beside, function)
                return Value("tensor", value.where) if value.is_tensor else DEVICE_TENSOR
        return DEVICE_TENSOR

    def _of_own_call(self, called: ast.expr, function: Function) -> Value:
        """Of a class or a function of this file, or of something that was given a name."""
        if isinstance(called, ast.Name):
            owner = self._outline.classes.get(called.id)
            if owner is not None:
                return self._of_class(owner)
            own = self._outline.function_named(called.id)
            if own is not None:
                return self._of_returns(own)
            if self.of_name(called.id, called.lineno, function).kind == "module":
                return DEVICE_TENSOR
            return UNKNOWN
        if isinstance(called, ast.Attribute):
            base = called.value
            if isinstance(base, ast.Name) and base.id == "self" and function.owner is not None:
                method = self._method(function.owner, called.attr)
                if method is not None:
                    return self._of_returns(method)
                if self.of_attribute(function.owner, called.attr).kind == "module":
                    return DEVICE_TENSOR
                return UNKNOWN
            if self.of(called, function).kind == "module":
                return DEVICE_TENSOR
            method = self._method(self._class_of(base, function), called.attr)
            return self._of_returns(method) if method is not None else UNKNOWN
        elif self.of(called, function).kind == "module":
            return DEVICE_TENSOR
        return UNKNOWN

    def _of_class(self, owner: Class) -> Value:
        if self.is_module(owner):
            return Value("module")
        names = {base.rpartition(".")[2] for base in owner.bases}
        if names & {"Dataset", "IterableDataset", "TensorDataset"}:
            return Value("dataset")
        if "Optimizer" in names or names & vocabulary.OPTIMIZERS:
            return Value("optimizer")
        if names & vocabulary.LOADERS:
            return LOADER
        return UNKNOWN

    def _of_returns(self, function: Function) -> Value:
        for each in function.returns:
            found = self.of(each, function)
            if found.kind not in ("unknown", "none"):
                return found
        said = getattr(function.node, "returns", None)
        return UNKNOWN if said is None or function.is_generator else self._of_said(said)

    def _of_returned(self, binding: Binding, function: Function) -> Value | None:
        """Of ``b`` of ``a, b = own(x)``, where a function of this file returns a tuple."""
        call = binding.value
        own = self._own_function(call.func, function) if isinstance(call, ast.Call) else None
        if own is None:
            return None
        for each in own.returns:
            found = self.of(_part_of(each, binding.path), own)
            if found.kind not in ("unknown", "none"):
                return found
        return None

    def _own_function(self, called: ast.expr, function: Function) -> Function | None:
        match called:
            case ast.Name(id=name):
                return self._outline.function_named(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self._method(function.owner, name)
        return None

    def _of_said(self, annotation: ast.expr) -> Value:
        return of_annotation(annotation, self._outline)

    def _of_binding(self, binding: Binding, function: Function) -> Value:
        if binding.value is None:
            return UNKNOWN
        given = self.of(binding.value, function)
        if given.kind == "unknown" and binding.said is not None:
            return self._of_said(binding.said)
        if binding.how in ("value", "with", "changed"):
            return given
        if binding.how == "item":
            own = self._of_returned(binding, function)
            if own is not None:
                return own
            if given.kind in ("tensor", "batch"):
                return Value("tensor", given.where)
            if given.kind == "array":
                return ARRAY
            return Value(given.items, given.where) if given.kind == "list" else UNKNOWN
        return self._of_each(binding, given, function)

    def _of_each(self, binding: Binding, given: Value, function: Function) -> Value:
        """What a loop over ``given`` gives its target."""
        over, path = binding.value, binding.path
        while isinstance(over, ast.Call) and over.args:
            wraps = self._outline.dotted(over.func).rpartition(".")[2]
            if wraps == "enumerate" and path:
                if path[0] == 0:
                    return NUMBER
                path = path[1:]
            elif wraps not in ("tqdm", "track", "iter", "reversed"):
                break
            over = over.args[0]
        if isinstance(over, ast.Call):
            name = self._outline.dotted(over.func)
            if name == "range" or name.endswith("trange"):
                return NUMBER
            method = over.func.attr if isinstance(over.func, ast.Attribute) else ""
            if method in ("items", "keys") and path in ((), (0,)):
                return UNKNOWN
            if name == "zip" and path and path[0] < len(over.args):
                given = self.of(over.args[path[0]], function)
        match given.kind:
            case "loader":
                return Value("batch", given.where)
            case "tensor" | "array":
                return given
            case "batch":
                return Value("tensor", given.where)
            case "list":
                return Value(given.items, given.where) if given.items != "unknown" else UNKNOWN
            case "module":
                return Value("module")
        return UNKNOWN


def _part_of(node: ast.expr, path: tuple[int, ...]) -> ast.expr | None:
    """``c`` of ``a, (b, c)`` at the places 1 and 1; None where it is no tuple."""
    for place in path:
        if not isinstance(node, ast.Tuple) or place >= len(node.elts):
            return None
        node = node.elts[place]
    return node


def _as_named(name: str, found: Value, binding: Binding | None) -> Value:
    """What models and functions give is taken for tensors; a count among it and a dict are told
    by their names."""
    if binding is None or found.kind != "tensor":
        return found
    if binding.how == "item" and vocabulary.COUNT.search(name):
        return NUMBER
    is_called = isinstance(binding.value, ast.Call) and binding.how in ("value", "item")
    return Value("dict", found.where, "tensor") if is_called and name.endswith("dict") else found


def _is_property(function: Function) -> bool:
    decorators = getattr(function.node, "decorator_list", ())
    return any(last_name(each) in ("property", "cached_property") for each in decorators)


def _asked_for_tensors(function: Function) -> Iterator[tuple[str, int, int]]:
    """Names with the lines that run only where they are tensors."""
    for site in function.calls:
        if site.called not in ("isinstance", "is_tensor"):
            continue
        match site.node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]):
                is_asked = last_name(kind) in TENSORS
            case ast.Call(func=ast.Attribute(attr="is_tensor"), args=[ast.Name(id=name)]):
                is_asked = True
            case _:
                continue
        if not is_asked:
            continue
        match site.parent:
            case ast.If(body=[first, *_] as body):
                yield name, first.lineno, body[-1].end_lineno or first.lineno
            case ast.IfExp(body=chosen):
                yield name, chosen.lineno, chosen.end_lineno or chosen.lineno
            case ast.BoolOp(op=ast.And()) if isinstance(site.statement, ast.If):
                body = site.statement.body
                yield name, body[0].lineno, body[-1].end_lineno or body[0].lineno


def _draws_number(node: ast.Call, name: str) -> bool:
    """``np.random.randint(n)``: one number, where no size is given."""
    if any(word.arg == "size" for word in node.keywords):
        return False
    most = vocabulary.DRAWN_WITH.get(name)
    return most is not None and len(node.args) <= most


def _is_of_number(node: ast.Call, name: str) -> bool:
    """``np.sqrt(5)``."""
    if name not in vocabulary.OF_NUMBERS or not node.args:
        return False
    return all(isinstance(each, ast.Constant) for each in node.args)


def _of_constant(node: ast.Constant) -> Value:
    if node.value is None:
        return NONE
    return TEXT if isinstance(node.value, (str, bytes)) else NUMBER


TEXT = Value("text")


def _is_flag(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _of_key(held: ast.expr, key: object) -> Value:
    """Of what a dict of results holds under a name that tensors have."""
    if not isinstance(key, str) or not key.endswith(vocabulary.KEYS_OF_TENSORS):
        return UNKNOWN
    return TENSOR if vocabulary.RESULTS.search(last_name(held)) else UNKNOWN


def _is_later(binding: Binding, line: int) -> bool:
    return binding.within is None and binding.line >= line


def _latest(bindings: list[Binding], line: int) -> Binding | None:
    """The last above the line; where there is none, the first below it: of a loop's last turn.
    What a comprehension binds is seen only in it, and there before all else."""
    latest = first = None
    for each in bindings:
        if each.within is not None:
            if each.within[0] <= line <= each.within[1]:
                return each
        elif each.how != "changed":
            first = first or each
            if each.line < line:
                latest = each
    return latest or first


_FINDERS: dict[type[ast.AST], Callable[[Values, Any, Function], Value]] = {
    ast.Name: Values._of_plain_name,
    ast.Attribute: Values._of_attribute,
    ast.Call: Values._of_call,
    ast.BinOp: Values._of_binary,
    ast.Compare: Values._of_comparison,
    ast.UnaryOp: Values._of_unary,
    ast.BoolOp: Values._of_any_or_all,
    ast.Subscript: Values._of_subscript,
    ast.IfExp: Values._of_choice,
    ast.List: Values._of_row,
    ast.Tuple: Values._of_row,
    ast.ListComp: Values._of_comprehension,
    ast.GeneratorExp: Values._of_comprehension,
    ast.Dict: Values._of_dict,
    ast.DictComp: Values._of_dict_comprehension,
    ast.JoinedStr: Values._of_text,
    ast.NamedExpr: Values._of_inner,
    ast.Starred: Values._of_inner,
    ast.Await: Values._of_inner,
}
"""By the kind of node; of all others nothing is known."""

_BY_ARGUMENTS: dict[ByArguments, Callable[[Values, ast.Call, str, Function], Value | None]] = {
    "torch": Values._of_torch_function,
    "parts": Values._of_parts,
    "loader": Values._of_loader,
    "dataset": Values._of_dataset,
    "numpy": Values._of_numpy,
    "list": Values._of_listed,
    "one of": Values._of_one,
    "next": Values._of_next,
    "same": Values._of_given,
}
"""Of calls whose names say what they give, together with what they are given."""
