"""Printing or logging a tensor in a hot place."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look, argument, called_name, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class LoggedTensor(Rule):
    code = "HST205"
    name = "logged-tensor"
    why = (
        "To write a number down it must be known: a tensor that is printed or logged waits for the"
        " device, each time."
    )
    instead = (
        "Log every so many steps; keep `loss.detach()` in a list until then and read all at once."
    )
    calls = (
        "print", "info", "debug", "warning", "write", "log", "log_metrics", "log_metric",
        "add_scalar", "add_scalars", "set_postfix", "set_description", "set_postfix_str",
    )  # fmt: skip
    waits = True
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch, wandb
from torch.utils.tensorboard import SummaryWriter

def train(model, loader, optimizer, logger):
    writer = SummaryWriter()
    for step, (x, y) in enumerate(loader):
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        print(f"{step}: {loss:.3f}")  # !
        logger.info("loss %s", loss)  # !
        print("loss {}".format(loss.detach()))  # !
        wandb.log({"loss": loss})  # !
        writer.add_scalar("loss", loss, step)  # !
        words, logs = f"{loss}", {"size": len(x)}
        logs = {"loss": loss}
        wandb.log(logs)  # !
""",
        """\
import torch

def keep(model, loader, file, sound):
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        file.write(loss)
        file.write(f"{loss}")  # !
""",
        """\
import torch
from lightning import LightningModule

class Net(LightningModule):
    def training_step(self, batch, number):
        loss = self.loss(batch)
        self.log("loss", loss)
        self.task.model.log("loss", loss)
        self.meters.log({"loss": loss})
        self.tracker.log_metrics({"loss": loss}, step=number)
        self.logger.debug("loss %s", loss)
        self.writer.add_scalar("rate", self.rate(number), number)
        loss = loss + other.log(loss)
        print(f"{self.parts(loss).keys()}")
        print(f"step {number} of shape {loss.shape}")
        if number % 50 == 0:
            print(loss)
        return loss
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call = site.node
        name = called_name(call)
        if name == "add_scalar" and _counts_epochs(argument(call, 2, "global_step")):
            return
        if name in ("log", "log_metric", "log_metrics") and not _reads_at_once(call, look):
            return
        for given in self._written(call, site, look):
            if look.is_on_device(given, site):
                words = f"`{look.source(given)}` is written down here, which waits for the device"
                yield Found(call, words)
                return

    def _written(self, call: ast.Call, site: Site, look: Look) -> Iterator[ast.expr]:
        """Also what was put into a text or a dict above, and handed over by its name."""
        for given in (*call.args, *(word.value for word in call.keywords)):
            whole = given
            if isinstance(given, ast.Name):
                whole = look.values.given(given, site.function) or given
                whole = whole if isinstance(whole, GATHERS) else given
            for part in _parts(whole):
                if part is not given or called_name(call) not in ("write", "debug"):
                    yield part  # a file takes no tensor as it is, and what debugs is mostly off


def _counts_epochs(step: ast.expr | None) -> bool:
    return isinstance(step, ast.Name) and "epoch" in step.id


def _reads_at_once(call: ast.Call, look: Look) -> bool:
    """Whether it is of a service that takes numbers: others, as Lightning's own and collectors of
    metrics, keep tensors as they are, and a mere ``log`` is a logarithm."""
    held = receiver(call)
    return held is not None and look.dotted(held).partition(".")[0] in ("wandb", "mlflow")


GATHERS = ast.JoinedStr | ast.Dict


def _parts(given: ast.expr) -> Iterator[ast.expr]:
    """What is put into a text, a dict or a tuple that is written."""
    match given:
        case ast.Constant():
            pass
        case ast.JoinedStr(values=values):
            yield from (each.value for each in values if isinstance(each, ast.FormattedValue))
        case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="format")):
            for each in (*given.args, *(word.value for word in given.keywords)):
                yield from _parts(each)
        case ast.BinOp(left=ast.Constant(value=str()), right=right):
            yield from _parts(right)
        case ast.Tuple(elts=elements):
            yield from elements
        case ast.Dict(values=values):
            yield from values
        case _:
            yield given
