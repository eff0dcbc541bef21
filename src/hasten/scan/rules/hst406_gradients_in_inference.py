"""A model that is only asked for predictions, while gradients are recorded."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Fix
from hasten.scan.edits import fix_of
from hasten.scan.gradients import is_given_arrays, keeps_tensors, may_need_them
from hasten.scan.heat import Heat
from hasten.scan.inference import (
    DROPS,
    asked_in,
    asks_model,
    evaluates,
    is_set_to_evaluate,
    is_without_grad,
    only_infers,
    records,
)
from hasten.scan.look import Look, receiver
from hasten.scan.models import is_model_call, model_behind
from hasten.scan.outline import STEPS, Function, Loop, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, loop_of, operands


class GradientsInInference(Rule):
    code = "HST406"
    name = "gradients-in-inference"
    why = (
        "Every activation is kept for a backward pass that never comes: memory grows, and each"
        " operation takes longer to launch."
    )
    instead = "Put the loop under `with torch.no_grad():`, or `torch.inference_mode()`."
    effort = "a minute"
    calls = (*DROPS, "train")
    nodes = (ast.For,)
    least = Heat.ONCE
    severity = "medium"
    silent_in = ("tests/", "testing/", "conftest.py")
    stops_gradients = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Net:
    def predict(self, loader):
        self.network.eval()
        results = []
        for x in loader:
            output, _ = self.network(x)  # !
            results.append(output.cpu().detach().numpy())
        return results

    def sample(self, n):
        fake = self.generator(torch.randn(n, 8))  # !
        shown = torch.tanh(fake)
        return shown.detach().cpu().numpy()
""",
        """\
import torch

def get_nll(encoder, decoder, data):  # !
    found = []
    for x in data:
        hidden = encoder(x)
        found.append((decoder(hidden) - x).square().sum().item())
    return np.mean(found)

def compute_metrics(net, loader, metric):
    net.train(False)
    for x, y in loader:
        metric.update(net(x), y)  # !
    return metric.compute()

def evaluate(model, loader, criterion):
    model.eval()
    total = 0.0
    for x, y in loader:
        out = model(x)  # !
        total += criterion(out, y).item()
    return total
""",
        """\
import torch
from torch import cat

class Ranking:
    def evaluate(self, size):
        for i, batch in enumerate(DataLoader(self.facts, batch_size=size)):  # !
            heads, tails = self.model.inference_candidates(batch[0], batch[1])
            scores = self.model.scoring_function(heads, tails)
            self.ranks[i : i + size] = scores.argsort(descending=True)

    def get_scores(self, dataloader):
        found = []
        for batch in dataloader:
            found.append(self.model.score(batch))  # !
        return cat(found)
""",
        """\
import torch

class Texts:
    def evaluate(self, loader):
        for batch in loader:
            self.found.append(self.model.encode(batch))
            self.seen.append(self.model.generate(batch))

    def sample_layers(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def evaluate_attack(self, loader):
        for x in loader:
            x.requires_grad_()
            self.model(x).sum().backward()
""",
        """\
import torch

def train(model, teacher_model, loader, optimizer):
    for x in loader:
        target = teacher_model(x).detach()  # !
        out = model(x)
        loss = (out - target).pow(2).mean() + (out.detach() - x).mean()
        loss.backward()
        optimizer.step()
""",
        """\
import torch

class Agent:
    def learn(self, batch):
        later = self.critic_target(batch.after)  # !
        goal = batch.reward + self.gamma * later
        loss = (self.critic(batch.before) - goal.detach()).pow(2).mean()
        loss.backward()

    def update(self, batch):
        best = self.q_net(batch.after).max(1)[0].detach()  # !
        later = self.target_net(batch.after)  # !
        seen = self.q_net(batch.seen).data.numpy()  # !
        goal = batch.reward + 0.99 * later.max(1)[0]
        loss = (self.q_net(batch.before) - goal.detach()).pow(2).mean()
        loss.backward()

def distil(student, teacher, loader, optimizer):
    for x in loader:
        soft = teacher(x)  # !
        loss = kl(student(x), soft.detach())
        loss.backward()
        optimizer.step()

def train(generator, critic, loader, optimizer):
    for x in loader:
        fake = generator(x)
        loss = critic(fake.detach()).mean() + critic(fake).mean()
        loss.backward()
        optimizer.step()
        target = self.target(x)
        with torch.no_grad():
            soft = self.teacher(x)

class Acting:
    def __init__(self, kind, device):
        self.act = kind(8).to(device)
        self.optimizer = torch.optim.Adam(self.act.parameters())

    def select_action(self, state):
        action = self.act(torch.as_tensor(state))  # !
        return action.detach().cpu().numpy()

class Reduced:
    def reduce(self, x):
        return self.net(x).data.numpy()  # !

    def select_action(self, state):
        values = self.q_net(state)  # !
        return values.argmax(dim=1).cpu().numpy()[0]
""",
        """\
import torch

def train(model, train_loader, val_loader, optimizer, loss_of, epochs):
    for epoch in range(epochs):
        for x, y in train_loader:
            loss = loss_of(model(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        right = 0
        for x, y in val_loader:
            right += (model(x).argmax(1) == y).sum().item()  # !
        with torch.no_grad():
            for x, y in val_loader:
                right += (model(x).argmax(1) == y).sum().item()

def right_answers(model, loader):
    right = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()  # !
    return right

def run_epoch(model, loader, scaled, optimizer):
    total = 0.0
    for x, y in loader:
        loss = model(x, y)
        scaled(loss, optimizer)
        total += loss.item()
    return total

def search(model, val_batches, weights):
    loss, seen = 0, 0
    for batch in val_batches:
        loss = loss + model(batch)
        seen += batch.mask.sum().item()
    loss.backward()
    return seen

def right_answers_in(model, loader):
    with eval_mode(model):
        return sum((model(x) > 0).sum().item() for x in loader)

def evaluate_engine(model, loader, example):
    model.eval()
    model(example)
    found = []
    for x in loader:
        with torch.no_grad():
            found.append(model(x).cpu())
    return found

def test_same(model, x):
    out = model(x)
    assert out.cpu().shape == (1, 2)

def test_scores(model, batches):
    model.eval()
    for x, y in batches:
        assert torch.allclose(model(x), y)

def ensure_predictions_are_consistent(model, batches):
    model.eval()
    for x, y in batches:
        assert_close(model(x), y)
""",
        """\
import torch

class Evaluator:
    def __call__(self, model, pairs):
        model.eval()
        scores = []
        for texts, wanted in pairs:
            found = np.asarray(model.encode(texts))
            scores.append(((found - wanted) ** 2).mean())
        return np.mean(scores)

class Embedder(torch.nn.Module):
    def __init__(self):
        self.embedder = torch.nn.Embedding(9, 4)

    def create_cached_embeddings(self, words):
        found = []
        for batch in groups_of(words):
            found.append(self.embedder(batch))
        self.cached = torch.cat(found, 0)

class Factorization:
    def predict(self, rows):
        self.model.eval()
        x = rows.x
        if isinstance(x, torch.Tensor):
            x = x.numpy()
        x, mask = filled(x)
        inputs = {"x": x, "mask": mask}
        return self.model(inputs)["imputed"]

    def predict_again(self, rows):
        self.model.eval()
        x = filled(rows.x.numpy())
        x = torch.from_numpy(x)
        return self.model(x)  # !
""",
        """\
import torch

class Trainer:
    def evaluate(self, epoch):
        self.model.eval()
        total = 0.0
        for x in self.loader:
            try:
                with torch.no_grad():
                    out = self.model(x, epoch=epoch)
            except RuntimeError:
                out = self.model(x, epoch=epoch)
            total += out.loss.item()
        return total

    def predict(self, model):
        model.eval()
        return model(next(iter(self.loader))).cpu().detach()

    def sample(self, z):
        return self.model.decoder(z).cpu().detach()  # !
""",
        """\
import torch

class Attacked:
    def predict(self, x):
        self.model.eval()
        out = self.model(x)
        self.seen = out.detach()
        return out

    def attack(self, x, y):
        out = self.predict(x)
        loss = torch.nn.functional.cross_entropy(out, y)
        loss.backward()
        return x + 0.1 * x.grad.sign()

def evaluate(model, x):
    out = model(x)
    print(out.cpu())
    return out

def saliency(model, x):
    return torch.autograd.grad(evaluate(model, x).sum(), x)
""",
        """\
import torch

def evaluate(model, loader):
    total = 0.0
    for x, y in loader:
        total += model(x, y).item()  # !
    return total

def train(model, loader, optimizer):
    for epoch in range(9):
        for x, y in loader:
            loss = model(x, y)
            loss.backward()
            optimizer.step()
        print(evaluate(model, loader))
""",
        """\
import torch

class Net:
    @torch.no_grad()
    def predict(self, x):
        return self.network(x).cpu().numpy()

    def sample(self, x):
        with torch.inference_mode():
            out = self.network(x)
        return out.cpu().numpy()

    def _encode(self, x):
        return self.network(x).cpu().numpy()

    def all(self, loader):
        with torch.no_grad():
            return [self._encode(x) for x in loader]

    def sample_and_train(self, x):
        loss = self.network(x)
        loss.backward()
        return loss.detach().cpu()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        found = list(self._found(site, look))
        if found and may_need_them(look).isdisjoint(site.function.called):
            yield from found

    def _found(self, site: Site, look: Look) -> Iterator[Found]:
        function = site.function
        if not only_infers(function):
            if isinstance(site.node, ast.Call):
                yield from self._dropped_at_once(site, look)
            else:
                yield from self._evaluated(loop_of(site), look)
            return
        model = _model_of(site, look)
        if model is None or not records(model, function, look):
            return
        if is_given_arrays(model, function, look) or keeps_tensors(function, look):
            return
        said = f"`{look.source(model.func)}` records gradients that nothing uses"
        yield Found(_place(model, function, look), said, _decorate(function, look))

    def _evaluated(self, loop: Loop | None, look: Look) -> Iterator[Found]:
        """A loop over batches, beside others that train or by itself."""
        model = _asked_by(loop, look)
        if loop is None or model is None or not evaluates(loop, look):
            return
        asked = [each for each in asked_in(loop, look) if records(each, loop.function, look)]
        if asked:
            said = f"`{look.source(asked[0].func)}` records gradients that nothing uses"
            yield Found(loop.node if len(asked) > 1 else asked[0], said)

    def _dropped_at_once(self, site: Site, look: Look) -> Iterator[Found]:
        """``target(x).detach()`` in a step of training."""
        name, function = site.called, site.function
        if name in ("eval", "train"):
            return
        made = _behind_methods(receiver(site.node), function, look)
        if made is None and name == "detach":
            made = model_behind(receiver(site.node), function, look)
            if made is not None and not FROZEN.search(last_name(made.func)):
                return
        if made is not None and not is_without_grad(made, function, look):
            said = f"`{look.source(made.func)}` records gradients that are dropped at once"
            trains = not STEPS.isdisjoint(function.called)
            is_number = name in ("numpy", "tolist") and not trains
            yield Found(made, said, least=Heat.ONCE if is_number else Heat.STEP)


FROZEN = re.compile(r"(^|_)(target|teacher|old|ref|reference|frozen|ema|momentum)(_|$)")
"""What networks are called that are not trained by a step."""


def _behind_methods(node: ast.expr | None, function: Function, look: Look) -> ast.Call | None:
    """``model(x)`` of ``model(x).max(1)[0]``."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        if isinstance(node, ast.Call):
            if is_model_call(node, function, look):
                return node
            node = receiver(node)
        else:
            node = node.value
    return None


def _model_of(site: Site, look: Look) -> ast.Call | None:
    """The model whose result is dropped there, or that is set to evaluate; of a loop over data the
    first that it asks."""
    function = site.function
    if isinstance(site.node, ast.For):
        return _asked_by(loop_of(site), look)
    if site.called in ("eval", "train"):
        return _first_asked(site, look) if is_set_to_evaluate(site.node) else None
    found = model_behind(next(iter(operands(site.node)), None), function, look)
    if found is None and _returns_numbers(function, look):
        found = next((each for each in _model_calls(function, look)), None)
    return found


def _asked_by(loop: Loop | None, look: Look) -> ast.Call | None:
    if loop is None or not look.heats.goes_over_batches(loop):
        return None
    return next(asked_in(loop, look), None)


def _decorate(function: Function, look: Look) -> Fix | None:
    """Right above ``def``, below other decorators."""
    torch = look.outline.name_of("torch")
    if torch is None or not isinstance(function.node, ast.FunctionDef):
        return None
    start = look.lines.offset(function.node.lineno, function.node.col_offset)
    indentation = look.lines.indentation(start)
    if indentation is None:
        return None
    line = f"@{torch}.no_grad(){look.lines.newline(start)}{indentation}"
    about = f"`{function.last_name}` records no gradients, whoever calls it."
    return fix_of("unsafe", about, look.lines.edit(start, start, line))


def _first_asked(site: Site, look: Look) -> ast.Call | None:
    return next(
        (
            each.node
            for each in site.function.calls
            if each.node.lineno > site.node.lineno and asks_model(each.node, site.function, look)
        ),
        None,
    )


def _returns_numbers(function: Function, look: Look) -> bool:
    """Whether all that it gives back is without a graph."""
    return bool(function.returns) and all(
        look.values.of(each, function).kind in ("number", "array") for each in function.returns
    )


def _model_calls(function: Function, look: Look) -> Iterator[ast.Call]:
    return (each.node for each in function.calls if is_model_call(each.node, function, look))


def _place(model: ast.Call, function: Function, look: Look) -> ast.AST:
    """The call of the model; where there are several, the loop over data that they stand in, or
    the function as a whole."""
    loops = [each for each in function.loops if look.heats.goes_over_batches(each)]
    for loop in loops:
        asked = [each for each in asked_in(loop, look) if records(each, function, look)]
        if len(asked) > 1 and loop.is_statement:
            return loop.node
    calls = [each for each in _model_calls(function, look) if records(each, function, look)]
    return function.node if len(calls) > 1 else model
