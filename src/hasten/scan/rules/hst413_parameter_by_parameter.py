"""Kernels for each parameter by itself, every step."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_given, last_name, names, operands
from hasten.scan.vocabulary import words

LISTS = ("parameters", "named_parameters", "buffers", "state_dict")
HELD = re.compile(r"^(\w*_)?param(eter)?s(_\w+)?$|^(\w+_)?weights?_list$")
VIEWS = ("zip", "enumerate", "list", "keys", "values", "items", "filter")
KERNELS = words(
    "norm sum abs pow mul_ add_ lerp_ copy_ clamp_ square sub_ div_ addcmul_ addcdiv_ sqrt sqrt_"
    " addcmul addcdiv lerp"
)


NUMBERS = re.compile(r"^(n_?sma|beta|bias_correction|step|lr)(_|\d|$)|_lr$", re.IGNORECASE)
"""What an optimizer computes on the host, of how many steps there were."""
SAID = "kernels are launched for each parameter by itself"


class ParameterByParameter(Rule):
    code = "HST413"
    name = "parameter-by-parameter"
    why = "A model has hundreds of parameters; a few kernels for each of them are thousands a step."
    instead = (
        "Use the functions for lists: `torch._foreach_mul_`, `torch._foreach_norm`,"
        " `clip_grad_norm_`, the `weight_decay` of the optimizer, or `torch.optim.swa_utils`."
    )
    risk = "rounding: sums are taken in another order"
    nodes = (ast.For, ast.ListComp, ast.GeneratorExp)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Penalty(torch.nn.Module):
    def forward(self, model):
        loss = 0.0
        for name, p in model.named_parameters():
            if "bias" not in name:
                loss += self.l2 * torch.sum(p**2)  # !
            for power, factor in self.terms:
                loss += factor * torch.norm(p, power)  # !
        return loss
""",
        """\
import torch

def train(model, ema, loader, optimizer):
    for x, y in loader:
        model(x, y).backward()
        optimizer.step()
        for ours, theirs in zip(ema.parameters(), model.parameters()):
            ours.data.mul_(0.99).add_(theirs.data, alpha=0.01)  # !

class Momentum(torch.optim.Optimizer):
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:  # !
                if p.grad is None:
                    continue
                p.add_(p.grad, alpha=-group["lr"])  # !
""",
        """\
import torch

def train(model, loader, optimizer):
    for x in loader:
        penalty = sum(p.pow(2).sum() for p in model.parameters())  # !
        loss = model(x).mean() + penalty
        loss.backward()
        size = torch.stack([torch.norm(p.grad) for p in model.parameters()]).norm()  # !
        optimizer.step()

class EMA:
    def update(self, model):
        for name, p in model.named_parameters():
            if p.requires_grad:
                self.shadow[name] = (1 - self.decay) * p.data + self.decay * self.shadow[name]  # !

def update_ema(average, model, decay):
    now, held = model.state_dict(), average.state_dict()
    for k, v in held.items():
        v.mul_(decay)  # !
        v.add_((1 - decay) * now[k])  # !

class Sharpness(torch.optim.Optimizer):
    def first_step(self, scale):
        for group in self.param_groups:
            for p in group["params"]:  # !
                state = self.state[p]
                step_size = self.rate / (1 - self.beta ** state["step"])
                climb = p.grad * scale  # !
                p.add_(climb)  # !
""",
        """\
import torch

def train(model, loader, optimizer):
    for x in loader:
        total = sum(p.numel() for p in model.parameters())
        shapes = [p.shape for p in model.parameters() if p.requires_grad]
    for p in model.parameters():
        p.data.mul_(0.5)
    for x, y in loader:
        for p in model.parameters():
            p.grad = None
        model(x, y).backward()
        optimizer.step()
        torch._foreach_mul_(list(model.parameters()), 0.9)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        node = site.node
        if not isinstance(node, ast.For):
            yield from _in_comprehension(site, look)
            return
        if not _over_parameters(node.iter, site, look):
            return
        targets = {each for each in names(node.target) if not each.endswith("name")}
        for statement in node.body:
            if isinstance(statement, ast.Assign) and targets & set(names(statement.value)):
                targets |= set(names(statement.targets[0]))
        of_group = isinstance(node.iter, ast.Subscript)
        for statement in _with_kernels(node.body, targets):
            if of_group:
                yield Found(node, SAID)
            yield Found(statement, SAID)


def _in_comprehension(site: Site, look: Look) -> Iterator[Found]:
    node: ast.ListComp | ast.GeneratorExp = site.node
    first = node.generators[0]
    if _over_parameters(first.iter, site, look) and _has_kernel(node.elt, set(names(first.target))):
        yield Found(node, SAID)


def _over_parameters(node: ast.expr, site: Site, look: Look) -> bool:
    if isinstance(node, ast.Call):
        if called_name(node) in LISTS:
            return True
        return called_name(node) in VIEWS and any(
            _over_parameters(each, site, look) for each in operands(node)
        )
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value == "params"
    if isinstance(node, ast.Name) and called_name(last_given(node, site.function)) in LISTS:
        return True
    return bool(HELD.search(last_name(node)))


def _with_kernels(body: list[ast.stmt], targets: set[str]) -> Iterator[ast.stmt]:
    """Statements that compute with a parameter."""
    for statement in body:
        if isinstance(statement, ast.If | ast.With | ast.For):
            yield from _with_kernels(statement.body, targets)
            yield from _with_kernels(getattr(statement, "orelse", []), targets)
        elif _computes(statement, targets):
            yield statement


def _computes(statement: ast.stmt, targets: set[str]) -> bool:
    if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
        return False
    if isinstance(statement, ast.Assign) and NUMBERS.search(last_name(statement.targets[0])):
        return False
    return _has_kernel(statement.value, targets)


def _has_kernel(node: ast.expr, targets: set[str]) -> bool:
    for each in walk(node):
        is_kernel = _is_arithmetic(each) or called_name(each) in KERNELS
        if is_kernel and targets & set(names(each)):
            return True
    return False


def _is_arithmetic(node: ast.AST) -> bool:
    """Not of text or lists: ``"name: " + str(p)``, ``[None] * n``."""
    return isinstance(node, ast.BinOp) and not any(
        isinstance(each, ast.List) or _is_text(each) for each in (node.left, node.right)
    )


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
