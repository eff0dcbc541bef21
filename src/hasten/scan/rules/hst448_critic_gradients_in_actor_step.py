"""Gradients of the critic's weights in a step of the actor or the generator."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, called_name, keyword, names_in, receiver
from hasten.scan.nodes import parts_of
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import FOLLOWED, last_name
from hasten.scan.training import optimizer_steps

ACTS = re.compile(r"(^|_)(actor|act|policy|pi|gen|generator|g)(_|$)|netG", re.IGNORECASE)
JUDGES = re.compile(
    r"(^|_)(critics?|d|disc|discr|discriminator|cri|q_?f(unc)?|q_?net(work)?)\d*(_\w+)?$|netD"
)
FROZEN = re.compile(r"requires_grad_?\b|freez|frozen", re.IGNORECASE)
"""Where somebody sees to it which weights have gradients."""


class CriticGradientsInActorStep(Rule):
    code = "HST448"
    name = "critic-gradients-in-actor-step"
    why = (
        "The loss goes through the critic for the sake of what the actor gave; the gradients of"
        " the critic's own weights are computed too, and thrown away."
    )
    instead = (
        "Call `critic.requires_grad_(False)` before the critic is asked and `True` after the"
        " backward pass, or name what is wanted: `loss.backward(inputs=list(actor.parameters()))`."
    )
    verify = "Compare the weights of both networks after some steps from the same seed."
    calls = ("backward",)
    mentions = ("actor", "act", "policy", "generator", "gen", "netG", "optimizer_G")
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Agent:
    def update_actor(self, batch):
        actions, log_prob = self.policy(batch.states)
        q = torch.min(self.q_func1(batch.states, actions), batch.bound)  # !
        loss = (self.weight * log_prob - q).mean()
        self.policy_optimizer.zero_grad()
        loss.backward()
        self.policy_optimizer.step()

def train(netG, netD, loader, optimizer_d, optimizer_g, bce):
    for real in loader:
        optimizer_d.zero_grad()
        bce(netD(real), 1).backward()
        optimizer_d.step()
        fake = netG(torch.randn(8, 3))
        score = netD(fake)  # !
        loss = bce(score, 1)
        optimizer_g.zero_grad()
        loss.backward()
        optimizer_g.step()
""",
        """\
import torch

class Agent:
    def update(self, batch):
        loss = (self.critic(batch.states, batch.actions) - batch.goal).pow(2).mean()
        self.critic_optimizer.zero_grad()
        loss.backward()
        self.critic_optimizer.step()
        value = self.critic(batch.states).detach()
        gain = -(self.actor(batch.states) * value).mean()
        self.actor_optimizer.zero_grad()
        gain.backward()
        self.actor_optimizer.step()

    def learn(self, batch):
        loss = (self.q_net(batch.states) - batch.goal).pow(2).mean()
        loss.backward()
        self.policy.optimizer.step()

    def update_both(self, batch):
        loss = self.critic(batch.states, self.actor(batch.states)).mean()
        loss.backward()
        self.optimizer.step()
""",
        """\
import torch

class Agent:
    def update_actor(self, batch):
        self.critic.requires_grad_(False)
        loss = -self.critic(batch.states, self.actor(batch.states)).mean()
        loss.backward()
        self.actor_optimizer.step()
        self.critic.requires_grad_(True)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        loss, function = receiver(site.node), site.function
        if loss is None or keyword(site.node, "inputs") is not None:
            return
        if not _trains_actor(site, look) or FROZEN.search(look.text_of(function)):
            return
        asked = _asked_critic(loss, function)
        if asked is not None:
            said = f"gradients of `{look.source(asked.func)}` are computed and thrown away"
            yield Found(asked, said)


def _trains_actor(back: Site, look: Look) -> bool:
    """Whether the next step of an optimizer is the actor's alone."""
    steps = (each for each in optimizer_steps(back.function, look) if _place(each) > _place(back))
    after = next(steps, None)
    if after is None or after.loop is not back.loop:
        return False
    stepped = [name.lower() for name in names_in(after.node.func)]
    return any(map(ACTS.search, stepped)) and not any(map(JUDGES.search, stepped))


def _place(site: Site) -> tuple[int, int]:
    return site.node.lineno, site.node.col_offset


def _asked_critic(loss: ast.expr, function: Function) -> ast.Call | None:
    """The call of a critic that the loss is made of, where its graph is not cut off."""
    behind = [loss]
    for _ in range(FOLLOWED):
        given: list[ast.expr] = []
        for each in (part for one in behind for part in _with_graph(one)):
            if isinstance(each, ast.Call) and JUDGES.search(last_name(each.func)):
                return each if _judges_actor(each, function) else None
            if isinstance(each, ast.Name):
                given += _last_given(each, function)
        if not given:
            return None
        behind = given
    return None


def _judges_actor(critic: ast.Call, function: Function) -> bool:
    """Whether the critic is given what an actor or a generator made."""
    given = [part for each in critic.args for part in _with_graph(each)]
    made = [
        part
        for each in given
        if isinstance(each, ast.Name)
        for value in _last_given(each, function)
        for part in _with_graph(value)
    ]
    return any(
        isinstance(each, ast.Call)
        and (called_name(each) == "rsample" or any(map(ACTS.search, names_in(each.func))))
        for each in (*given, *made)
    )


def _with_graph(node: ast.AST) -> Iterator[ast.AST]:
    """All parts of an expression through which gradients go."""
    if called_name(node) in ("detach", "item") or last_name(node) in ("data", "shape"):
        return
    yield node
    for each in parts_of(node):
        yield from _with_graph(each)


def _last_given(node: ast.Name, function: Function) -> list[ast.expr]:
    above = [
        each.value
        for each in function.bindings.get(node.id, ())
        if each.value is not None and each.line < node.lineno and each.how in ("value", "item")
    ]
    return above[-1:]
