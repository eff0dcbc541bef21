"""Tasks whose lines wait for the device: ``# KIND COUNT`` at a line's end says how, per step."""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import hasten

ROWS, WIDTH, CLASSES = 192, 16, 4


class _Nowhere:
    def write(self, text: str) -> None: ...


LOG = logging.StreamHandler(_Nowhere())


class Planted(nn.Module):
    """Each kind on a line of its own; the loss is that of the plain model."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)
        self.register_buffer("scale", torch.ones(CLASSES))
        self.on_host = torch.tensor([3, 1, 2])
        self.calls = 0
        self.said = ""

    def forward(self, rows: Tensor) -> Tensor:
        output: Tensor = self.layer(rows) * self.scale
        self.calls += 1
        self.read_values(output)
        self.decide(output)
        self.size_by_values(output.detach())
        self.bring(output)
        self.host_only(output)
        return output

    def read_values(self, output: Tensor) -> None:
        total = output.detach().sum()
        place = output.detach()[0].argmax()
        total.item()  # item 1
        float(total)  # item 1
        int(place)  # item 1
        [0, 1, 2, 3][place]  # item 1
        range(place)  # item 1
        for _ in range(3):
            place.item()  # item 3
        if self.calls % 2 == 0:
            total.item()  # item 0.5
        output.detach().cpu()  # cpu 1
        output.to("cpu")  # cpu 1
        output.detach().cpu().numpy()  # cpu 1
        output.detach().numpy(force=True)  # numpy 1
        total.tolist()  # tolist 1
        self.said = f"{total:.3f}"  # print 1
        self.said = str(total)  # print 1
        self.said = repr(output)  # print 1
        LOG.handle(logging.makeLogRecord({"msg": "%s", "args": (total,)}))  # print 1
        torch.tensor([total, total])  # item 1
        output[place]  # item 1
        output[:place]  # item 1
        torch.zeros(place)  # item 1

    def decide(self, output: Tensor) -> None:
        high = output.sum() > 1e9
        if high:  # bool 1
            raise AssertionError
        while high:  # bool 1
            raise AssertionError
        assert not high  # bool 1
        bool(high)  # bool 1
        self.said = high or ""  # bool 1
        output[0, 0] in [output[0, 1]]  # noqa: B015  # bool 1
        2.0 in output  # noqa: B015  # bool 1
        torch.equal(output, -output)  # bool 1
        torch.allclose(output, output)  # bool 1
        max(output[0, 0], output[0, 1])  # bool 1

    def size_by_values(self, output: Tensor) -> None:
        mask = output > 0
        output[mask]  # mask 1
        output[0, mask[0]]  # mask 1
        copy = output.clone()
        copy[mask] = output[mask] + 1  # mask 2
        copy.masked_select(mask)  # mask 1
        output.nonzero()  # nonzero 1
        torch.where(mask)  # nonzero 1
        torch.argwhere(mask)  # nonzero 1
        output.unique()  # nonzero 1
        torch.unique(output.argmax(1))  # nonzero 1
        torch.bincount(output.argmax(1))  # nonzero 1
        F.one_hot(output.argmax(1))  # nonzero 1
        output.repeat_interleave(mask.sum(1), 0)  # nonzero 1

    def bring(self, output: Tensor) -> None:
        device = output.device
        torch.zeros(3).to(device)  # copy 1
        torch.tensor([1.0, 2.0], device=device)  # copy 1
        torch.as_tensor([1.0, 2.0], device=device)  # copy 1
        output.new_tensor([1.0])  # copy 1
        torch.from_numpy(np.zeros(3)).to(device)  # copy 1
        self.on_host.to(device)  # copy 1
        output.detach()[[0, 2, 1]]  # copy 1
        output.detach()[self.on_host]  # copy 1
        copy = output.detach().clone()
        copy[0, 1] = 1.0  # copy 1
        copy[copy[0].argsort()] = 1.0  # copy 1
        copy[0] = torch.zeros(CLASSES)  # copy 1
        torch.empty(2, device=device).copy_(torch.zeros(2))  # copy 1

    def host_only(self, output: Tensor) -> None:
        """None of these waits."""
        device = output.device
        self.on_host.sum().item()
        torch.arange(3).sum().item()
        if torch.rand(1) < -1:
            raise AssertionError
        kept = output.detach().cpu()  # cpu 1
        kept.sum().item()
        kept[kept > 0]
        print(kept.shape, len(kept), kept.dtype, kept.is_contiguous(), file=_Nowhere())
        copy = output.detach().clone()
        copy[copy > 0] = 0.0
        copy.masked_fill_(copy > 0, 0.0)
        torch.where(copy > 0, copy, 0.0)
        copy[0:2, 1] = 1.0
        copy[0] = torch.tensor(1.0)
        copy[copy[0].argsort()] = copy[0].sum()
        torch.zeros(3, device=device) + torch.arange(3, device=device)
        torch.zeros(3).to(device, non_blocking=True)
        output.to(device).to(torch.float64)
        output * torch.tensor(2.0)
        F.one_hot(copy.argmax(1), CLASSES)
        output.repeat_interleave(2, 0)


class Doubled(torch.autograd.Function):
    """Keeps its input in another tensor, as functions of users do."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        values.sum().item()  # item 1
        return values.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient.sum().item()  # item 1
        return gradient


class InHiding(nn.Module):
    """Waits in hooks, functions, checkpoints and what torch does for the user."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 8)
        self.second = nn.Linear(8, CLASSES)
        self.first.register_forward_hook(self.look_at_output)
        self.second.register_full_backward_hook(self.look_at_gradient)
        self.first.weight.register_hook(look_at_weight)

    def forward(self, rows: Tensor) -> Tensor:
        hidden = Doubled.apply(self.first(rows))
        hidden.sum().item()  # item 1
        with torch.no_grad():
            hidden.mean().item()  # item 1
            hidden.data.sum().item()  # item 1
        output: Tensor = self.second(torch.relu_(hidden))
        output.sum().item()  # item 1
        scale = output.exp().mean()
        torch.distributions.Normal(output.mean(), scale, validate_args=True)  # bool 2
        output.register_hook(lambda gradient: print(gradient, file=_Nowhere()))  # print 1
        return torch.utils.checkpoint.checkpoint(self.again, output, use_reentrant=False)

    def again(self, output: Tensor) -> Tensor:
        output.sum().item()  # item 2
        return output.sin()

    def look_at_output(self, module: nn.Module, given: Any, output: Tensor) -> None:
        output.abs().max().item()  # item 1

    def look_at_gradient(self, module: nn.Module, given: Any, gradients: Any) -> None:
        gradients[0].norm().item()  # item 1


def look_at_weight(gradient: Tensor) -> None:
    gradient.norm().item()  # item 1


class Careful(torch.optim.AdamW):
    """Looks at the gradients before it steps."""

    def step(self, closure: Any = None) -> Any:
        parameters = self.param_groups[0]["params"]
        nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)  # bool 1
        nn.utils.clip_grad_norm_(parameters, 1.0)
        for parameter in parameters:
            if parameter.grad.isnan().any():  # bool 4
                raise AssertionError
        return super().step(closure)


class InAThread(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, rows: Tensor) -> Tensor:
        output: Tensor = self.layer(rows)
        thread = threading.Thread(target=self.look_at, args=[output])
        thread.start()
        thread.join()
        return output

    def look_at(self, output: Tensor) -> None:
        output.sum().item()  # other 1


Optimizers = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def _task(model: nn.Module, optimizer: Optimizers = torch.optim.AdamW) -> hasten.Task:
    return hasten.Task(
        model=model,
        data=(torch.randn(ROWS, WIDTH), torch.randint(0, CLASSES, (ROWS,))),
        loss=F.cross_entropy,
        optimizer=optimizer,
        batch_size=32,
        clip_norm=1.0,
    )


def planted() -> hasten.Task:
    return _task(Planted())


def in_hiding() -> hasten.Task:
    return _task(InHiding(), Careful)


def clean() -> hasten.Task:
    layers = nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, CLASSES)
    return _task(nn.Sequential(*layers))


def in_a_thread() -> hasten.Task:
    return _task(InAThread())
