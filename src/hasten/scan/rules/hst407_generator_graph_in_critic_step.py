"""Gradients of the generator in a step of the discriminator."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, receiver
from hasten.scan.nodes import parts_of, walk
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import FOLLOWED, last_name, names

CRITIC = re.compile(r"(^|_)(d|disc|discr|dis|discriminator|critic)(_|$)|(loss|err|Loss)_?D$|^D_")
GENERATOR = re.compile(r"(^|_)(gen|generator)($|_)|netG$|(^|_)G$|^generator")

JUDGES = re.compile(r"(^|_)(d|dis|disc|discr|discriminator|critic)\d*(_|$)|netD", re.IGNORECASE)
"""What the discriminator itself is called."""


class GeneratorGraphInCriticStep(Rule):
    code = "HST407"
    name = "generator-graph-in-critic-step"
    why = (
        "The discriminator's loss runs backward through the generator too, whose gradients are"
        " thrown away."
    )
    instead = "Make the fakes under `torch.no_grad()`, or give the discriminator `fake.detach()`."
    effort = "a minute"
    calls = ("backward",)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(generator, discriminator, loader, opt_d):
    for real in loader:
        fake = generator(torch.randn(8, 4))  # !
        loss_d = discriminator(fake).mean() - discriminator(real).mean()
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
""",
        """\
import torch

def train(generator, discriminator, loader, opt_d, opt_g):
    for real in loader:
        fake = generator(torch.randn(8, 4))
        d_loss = discriminator(fake.detach()).mean() - discriminator(real).mean()
        d_loss.backward()
        opt_d.step()
        g_loss = -discriminator(fake).mean()
        g_loss.backward()
        opt_g.step()
""",
        """\
import torch

def train(generator, D, loader, opt_d, opt_g, bce):
    for real in loader:
        fake = generator(torch.randn(8, 4))  # !
        d_loss = bce(D(real), torch.ones(8)) + bce(D(fake), torch.zeros(8))
        d_loss = d_loss + 10 * penalty(D, real, fake.detach())
        d_loss.backward()
        opt_d.step()

def train_apart(generator, D, loader, opt_d, opt_g, bce):
    for real in loader:
        fake = generator(torch.randn(8, 4))
        g_loss = bce(D(fake), torch.ones(8))
        cut = fake.detach()
        d_loss = bce(D(real), torch.ones(8)) + bce(D(cut), torch.zeros(8))
        d_loss.backward()
        opt_d.step()
        fake = generator(torch.randn(8, 4))
        fake = fake.detach()
        d_loss = bce(D(fake), torch.zeros(8))
        d_loss.backward()
""",
        """\
import torch

def train(generator, discriminator, loader, opt_d):
    for real in loader:
        with torch.no_grad():
            fake = generator(torch.randn(8, 4))
        loss_d = discriminator(fake).mean() - discriminator(real).mean()
        loss_d.backward()
        opt_d.step()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not CRITIC.search(last_name(receiver(site.node))):
            return
        line = site.node.lineno
        before = [
            each
            for each in site.function.calls
            if each.loop is site.loop and each.node.lineno < line
        ]
        makers = [each for each in before if GENERATOR.search(last_name(each.node.func))]
        if not makers or look.without_grad(makers[-1]):
            return
        made: ast.Call = makers[-1].node
        may_cut = any(
            each.called == "detach" and each.node.lineno >= made.lineno for each in before
        )
        if not may_cut or _is_judged_whole(makers[-1], site):
            loss = look.source(site.node.func.value)
            yield Found(made, f"`{loss}.backward()` goes through the generator")


def _is_judged_whole(maker: Site, back: Site) -> bool:
    """Whether the loss surely is of ``critic(fake)`` with the graph of ``fake``, though something
    else of the step is cut off."""
    match maker.statement:
        case ast.Assign(targets=[ast.Name(id=fake)], value=value) if value is maker.node:
            first, last = maker.node.lineno, back.node.lineno
        case _:
            return False
    given = [each.line for each in maker.function.bindings[fake] if first <= each.line < last]
    if len(given) != 1:  # it may be cut off where it is given again
        return False
    return any(
        isinstance(call, ast.Call)
        and JUDGES.search(last_name(call.func))
        and any(_reads(each, fake) for each in call.args)
        for one in _behind(receiver(back.node), maker.function, first)
        for call in walk(one)
        if not _is_cut(one)
    )


def _behind(loss: ast.expr | None, function: Function, first: int) -> list[ast.expr]:
    """What the loss was computed by, from the line on."""
    found = [loss] if loss is not None else []
    for _ in range(FOLLOWED):
        more = [
            value
            for one in found
            for name in names(one)
            for value in _given(name, function, first, one.lineno)
            if value not in found
        ]
        if not more:
            break
        found += more
    return found


def _given(name: str, function: Function, first: int, line: int) -> list[ast.expr]:
    """What a name was last given between two lines, and what was added to that."""
    found: list[ast.expr] = []
    for each in function.bindings.get(name, ()):
        if first <= each.line < line and each.value is not None:
            found = [*found, each.value] if each.how == "changed" else [each.value]
    return found


def _reads(node: ast.AST, name: str) -> bool:
    """Whether the name is read there with its graph."""
    if isinstance(node, ast.Name):
        return node.id == name
    return not _is_cut(node) and any(_reads(each, name) for each in parts_of(node))


def _is_cut(node: ast.AST) -> bool:
    return called_name(node) in ("detach", "item") or last_name(node) in ("data", "shape")
