"""A recurrent cell called moment by moment from Python."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.recurrence import carries, hands_on, is_backwards, is_parallel, recurrence
from hasten.scan.rule import Found, Rule


class TimeLoop(Rule):
    code = "HST404"
    name = "python-time-loop"
    why = (
        "Each moment launches every kernel of the cell anew from Python, and each waits for the"
        " one before."
    )
    instead = (
        "Use `nn.GRU` or `nn.LSTM` over the whole sequence where the cell is one of theirs; else"
        " compile the loop, or compute outside of it what does not need the state."
    )
    risk = "rounding: sums are taken in another order"
    effort = "an hour"
    nodes = (ast.For,)
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Layer(torch.nn.Module):
    def forward(self, x):
        h = torch.zeros(x.size(0), self.size, device=x.device)
        outs = []
        for i in range(x.size(1)):  # !
            h = self.cell(x[:, i], h)
            outs.append(h)
        return torch.stack(outs, 1)
""",
        """\
import torch

def forward(rewards, values, steps):
    gains = torch.zeros_like(rewards)
    last = 0
    for t in reversed(range(steps)):  # !
        delta = rewards[t] + values[t + 1] - gains[t]
        gains[t] = last = delta + 0.9 * last
    scores = torch.zeros(8, steps + 1)
    for t in range(steps):  # !
        scores[:, t + 1] = torch.logsumexp(scores[:, t] + gains[t], dim=-1)
    return gains, scores
""",
        """\
import torch
import torch.nn.functional as F

class Layer(torch.nn.Module):
    def forward(self, x, h):
        outs = []
        for now in x.unbind(1):  # !
            h = self.cell(now, h)
            outs.append(h)
        x = x.transpose(0, 1)
        for now in x:  # !
            h = torch.tanh(self.inner(now) + self.outer(h))
        return torch.stack(outs), h

def sinkhorn(logits: torch.Tensor, count: int):
    for _ in range(count):  # !
        logits = logits - torch.logsumexp(logits, dim=1, keepdim=True)
        logits = logits - torch.logsumexp(logits, dim=2, keepdim=True)
    return logits.exp()
""",
        """\
import torch
import torch.nn.functional as F

class Layer(torch.nn.Module):
    def forward(self, x, y, h, seq_len):
        states, score = [h], 0
        for i in range(x.size(1)):  # !
            states.append(self.cell(x[:, i], states[-1]))
        for i, now in enumerate(x.unbind(1)):  # !
            if self.fed:
                h = self.cell(now, h)
        for i in range(1, seq_len):  # !
            score = score + self.table[y[:, i - 1], y[:, i]] * x[:, i]
        for t in range(x.shape[1]):  # !
            score += F.cross_entropy(x[:, t], y[:, t])
        return states, h, score
""",
        """\
import torch

class Stacked(torch.nn.Module):
    def forward(self, x, states):
        outs = []
        for t in range(x.size(1)):  # !
            now = x[:, t]
            for i, cell in enumerate(self.cells):
                states[i] = cell(now, states[i])
                now = states[i]
            outs.append(now)
        for t in range(x.size(1)):  # !
            now, after = x[:, t], []
            for i, layer in enumerate(self.layers):
                now = layer(now, states[i])
                after.append(now)
            states = torch.stack(after)
        return torch.stack(outs, 1)

class Packed(torch.nn.Module):
    def forward(self, packed, h):
        x, batch_sizes, _, _ = packed
        start = 0
        for size in batch_sizes:  # !
            part = x[start : start + size]
            before = h[:size]
            h = self.cell(part, before)
            start += size
        return h

def recurrent(cell, backwards):
    def forward(x, h):
        places = range(len(x) - 1, -1, -1) if backwards else range(len(x))
        for i in places:  # !
            h = cell(x[i], h)
        return h
    return forward

class Agent:
    def get_returns(self, count, rewards, kept, value):
        sums = torch.empty(count, device=self.device)
        for i in range(count - 1, -1, -1):  # !
            sums[i] = rewards[i] + kept[i] * value
            value = sums[i]
        return sums

def returns_loss(rewards: torch.Tensor, kept, value):
    sums = torch.empty_like(rewards)
    for i in range(len(rewards) - 1, -1, -1):  # !
        value = rewards[i] + kept[i] * value
        sums[i] = value
    return sums
""",
        """\
import torch

class Speakers(torch.nn.Module):
    def forward(self, x, lengths, shapes):
        for i in range(self.n_speakers):
            x[i], lengths[i] = self.encoder(x[i], lengths[i])
        for layer in range(self.n_layers):
            x = self.blocks(x, layer, shape=shapes[layer])
        parts = []
        for i in range(x.size(1)):
            part = x[:, i]
            for scale in self.scales:
                part = scale(part)
            parts.append(part)
        return parts
""",
        """\
import torch

class Repeated(torch.nn.Module):
    def forward(self, x, images):
        for _ in range(self.depth):
            x = self.layer(x)
        found = []
        for image in images:
            found.append(self.encoder(image))
        for _ in range(self.count):
            found = found + [x]
        for _ in range(x.dim()):
            x = x.unsqueeze(-1)
        grown = x[:1]
        for row in x[1:]:
            grown = torch.cat((grown, row))
        for label in x.unique():
            grown[label] = self.mean(grown, x == label)
        return x, found
""",
        """\
import torch

class Stack(torch.nn.Module):
    def forward(self, x, masks):
        for i in range(self.n_layers):
            x = self.layers[i](x, masks[i])
        x, _ = self.lstm(x)
        start = 0
        for i in range(3):
            end = start + 1
            x[:, i] = x[:, start:end]
            start = end
        for t in range(x.size(1)):
            self.memory = self.memory + x[:, t]
        found = [x[:, 0]]
        for t in range(x.size(1)):
            found.append(x[:, t] + found[-1])
        for t in range(x.size(1)):
            found.append(x[:, t])
        return x
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        found = recurrence(site)
        if found is not None and found.cell is not None:
            called = look.source(found.cell.func)
            yield Found(site.node, f"`{called}` is called once a moment from Python")
            return
        state = hands_on(site, look)
        if state:
            # Rewards are summed up once for many steps, but over all moments of them.
            often = Heat.ONCE if is_backwards(site.node.iter) else None
            said = f"`{state}` is computed moment by moment from Python"
            yield Found(site.node, said, least=often)
        elif is_parallel(site, look):
            yield Found(site.node, "each moment is computed by itself, and needs no other")
        else:
            layer = carries(site, look)
            if layer:
                yield Found(site.node, f"`{layer}` is called once a moment from Python")
