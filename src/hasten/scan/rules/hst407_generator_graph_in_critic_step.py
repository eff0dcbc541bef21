"""Gradients of the generator in a step of the discriminator."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

CRITIC = re.compile(r"(^|_)(d|disc|discr|dis|discriminator|critic)(_|$)|(loss|err|Loss)_?D$|^D_")
GENERATOR = re.compile(r"(^|_)(gen|generator)($|_)|netG$|(^|_)G$|^generator")


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
        cut = any(each.called == "detach" and each.node.lineno >= made.lineno for each in before)
        if not cut:
            loss = look.source(site.node.func.value)
            yield Found(made, f"`{loss}.backward()` goes through the generator")
