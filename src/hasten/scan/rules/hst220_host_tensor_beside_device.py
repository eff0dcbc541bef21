"""A tensor that is made on the host in the shape of one on the device."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, keyword
from hasten.scan.nodes import walk
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.vocabulary import words


class HostTensorBesideDevice(Rule):
    code = "HST220"
    name = "host-tensor-beside-device"
    why = (
        "Without a device the tensor lies on the host: what is written to it from the device is"
        " copied and waited for, and to be used there it is copied back."
    )
    instead = "`x.new_zeros(n)`, or `device=x.device` where it is made."
    risk = "random numbers come from the device's generator and are others than before"
    calls = ("zeros", "ones", "empty", "full", "rand", "randn", "randint", "eye")
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def ratio_loss(estimates, targets):
    estimates = torch.squeeze(estimates, dim=-1)
    count = estimates.shape[0]
    found = torch.zeros(count)  # !
    for i in range(count):
        found[i] = torch.log10(estimates[i].sum() / targets[i].sum())
    return found.mean()
""",
        """\
import torch
from torch import nn

class Contrast(nn.Module):
    def forward(self, y: torch.Tensor):
        rows, columns = y.shape
        others = torch.randint(low=0, high=columns, size=(rows, 4))  # !
        joined = torch.empty(len(y), 2 * y.size(1))  # !
        joined[:, 0::2] = y
        places = torch.randint(0, rows, (columns,))  # !
        joined = joined + y[places.view(-1)]
        return y[others] + joined

    def weigh(self, y: torch.Tensor, weights=None):
        if weights is None:
            weights = torch.ones(len(y))  # !
        else:
            weights = self.shares(weights)
        return y * weights.to(y.device)
""",
        """\
import torch
from torch import nn

class Contrast(nn.Module):
    def forward(self, y: torch.Tensor):
        rows, columns = y.shape
        moved = torch.zeros(rows).to(y)
        later = torch.ones(rows)
        later = later.to(y.device)
        picked = torch.randint(0, rows, (1,)).item()
        beside = torch.zeros(rows, device=y.device)
        on_host = y.cpu()
        written = torch.zeros(on_host.shape)
        apart = torch.zeros(rows)
        apart[0] = 1.0
        y = y + torch.ones(rows, columns) * torch.rand(rows, 1)
        torch.full(y.shape, 0.0, out=y)
        if torch.rand(1) < 0.5:
            return moved
        return moved + later + beside + picked + torch.zeros(3).sum() + written.sum()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = site.node
        if not look.makes_tensor(call) or look.prepares_data(site):
            return
        if keyword(call, "out") is not None:
            return
        if not any(self._is_size(each, site, look) for each in _sizes(call)):
            return
        if _is_used_up(site) or _is_said_later(site, look):
            return
        if _meets_device(site, look):
            yield Found(call, f"`{look.source(call)}` lies on the host")

    def _is_size(self, node: ast.expr, site: Site, look: Look) -> bool:
        """Whether it is a length of a tensor on the device, or made of one."""
        match node:
            case (
                ast.Attribute(value=of, attr="shape")
                | ast.Subscript(value=ast.Attribute(value=of, attr="shape"))
            ):
                return look.is_on_device(of, site)
            case (
                ast.Call(func=ast.Attribute(value=of, attr="size"))
                | ast.Subscript(value=ast.Call(func=ast.Attribute(value=of, attr="size")))
            ):
                return look.is_on_device(of, site)
            case ast.Call(func=ast.Name(id="len"), args=[of]):
                return look.is_on_device(of, site)
            case ast.BinOp(left=left, right=right):
                return self._is_size(left, site, look) or self._is_size(right, site, look)
            case ast.Name():
                return self._is_named_size(node, site, look)
        return False

    def _is_named_size(self, node: ast.Name, site: Site, look: Look) -> bool:
        binding, scope = look.values.definition(node.id, node.lineno, site.function)
        if binding is None or binding.value is None or scope is not site.function:
            return False
        if binding.how not in ("value", "item") or isinstance(binding.value, ast.Name):
            return False
        return binding.line < node.lineno and self._is_size(binding.value, site, look)


USES_UP = words("to cuda type_as item tolist numpy expand_as")


def _sizes(call: ast.Call) -> Iterator[ast.expr]:
    given = (*call.args, *(word.value for word in call.keywords if word.arg == "size"))
    for each in given:
        yield from each.elts if isinstance(each, ast.Tuple | ast.List) else (each,)


def _is_used_up(site: Site) -> bool:
    """Whether it is moved or read in the same row of methods, or serves as an index."""
    statement = site.statement
    return isinstance(site.parent, ast.Subscript) or any(
        called_name(each) in USES_UP and _begins(each, site.node)
        for each in walk(statement)
        if isinstance(each, ast.Call)
    )


def _meets_device(site: Site, look: Look) -> bool:
    """Whether it is copied to the device further down, serves there as an index, or is written to
    from there."""
    made = {site.node}
    if isinstance(site.statement, ast.Assign):
        names = {each.id for each in site.statement.targets if isinstance(each, ast.Name)}
        made |= {
            each
            for each in walk(site.function.node)
            if isinstance(each, ast.Name) and each.id in names and each.lineno >= site.node.lineno
        }
    return any(_is_beside_device(each, made, site, look) for each in walk(site.function.node))


def _is_beside_device(node: ast.AST, made: set[ast.AST], site: Site, look: Look) -> bool:
    """Arithmetic is left out: with a tensor on another device it fails, so both lie on the host."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=written)], value=value):
            ours, other = written, value
        case ast.Subscript(value=held, slice=place):
            ours, other = place, held
        case ast.Call(func=ast.Attribute(value=moved, attr="to" | "cuda" | "type_as")):
            return moved in made
        case _:
            return False
    return any(part in made for part in walk(ours)) and look.is_on_device(other, site)


def _begins(node: ast.expr, start: ast.expr) -> bool:
    while node is not start:
        match node:
            case ast.Call(func=ast.Attribute(value=before)) | ast.Subscript(value=before):
                node = before
            case ast.BinOp(left=before):
                node = before
            case _:
                return False
    return True


def _is_said_later(site: Site, look: Look) -> bool:
    """Whether what it is called is copied further down, and surely is this."""
    if not isinstance(site.statement, ast.Assign):
        return False
    names = {each.id for each in site.statement.targets if isinstance(each, ast.Name)}
    return any(
        each.called in ("to", "cuda", "type_as")
        and isinstance(each.node.func.value, ast.Name)
        and each.node.func.value.id in names
        and each.node.lineno > site.node.lineno
        and look.origin(each.node.func.value, each) is site.node
        for each in site.function.calls
        if isinstance(each.node.func, ast.Attribute)
    )
