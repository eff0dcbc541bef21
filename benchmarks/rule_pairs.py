"""Code that a rule of `hasten scan` finds, beside what the rule says to write instead.

Each pair is made for a device and gives two functions that do the same work and return the same
numbers. The sizes are those of small trainings, where such code costs most.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, Dataset, TensorDataset

Work = Callable[[], object]
Make = Callable[[torch.device], tuple[Work, Work]]
STEPS = 32
ROWS = 256


@dataclass(frozen=True)
class Pair:
    code: str
    about: str
    """Where the worth was measured, after "times as fast": a short phrase."""
    make: Make
    needs_gpu: bool = False


PAIRS: list[Pair] = []


def pair(code: str, about: str, *, needs_gpu: bool = False) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        PAIRS.append(Pair(code, about, make, needs_gpu))
        return make

    return add


class Training:
    """A small model and the batches of an epoch, on the device."""

    def __init__(self, device: torch.device, *, width: int = 512) -> None:
        torch.manual_seed(0)
        self.device = device
        layers = [nn.Linear(64, width), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.model = nn.Sequential(*layers, nn.Linear(width, 10)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.batches = [torch.randn(ROWS, 64, device=device) for _ in range(STEPS)]
        self.targets = [torch.randint(10, (ROWS,), device=device) for _ in range(STEPS)]

    def step(self, number: int) -> Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.batches[number]), self.targets[number])
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def steps(self, after: Callable[[Tensor], None]) -> None:
        for number in range(STEPS):
            after(self.step(number))


# Host and device


@pair("HST201", "32 steps of a small network")
def read_every_step(device: torch.device) -> tuple[Work, Work]:
    one, other = Training(device), Training(device)

    def before() -> float:
        total = 0.0
        for number in range(STEPS):
            total += one.step(number).item()
        return total

    def after() -> float:
        total = torch.zeros((), device=device, dtype=torch.float64)
        for number in range(STEPS):
            total += other.step(number)
        return total.item()

    return before, after


@pair("HST203", "32 steps of a small network, the check once at the end")
def check_every_step(device: torch.device) -> tuple[Work, Work]:
    one, other = Training(device), Training(device)

    def before() -> bool:
        is_finite = True
        for number in range(STEPS):
            if torch.isnan(one.step(number)):
                is_finite = False
        return is_finite

    def after() -> bool:
        losses = [other.step(number) for number in range(STEPS)]
        return not bool(torch.stack(losses).isnan().any())

    return before, after


@pair("HST204", "evaluating 32 batches of a small network")
def copy_every_batch(device: torch.device) -> tuple[Work, Work]:
    training = Training(device)

    @torch.inference_mode()
    def before() -> Tensor:
        return torch.cat([training.model(each).cpu() for each in training.batches])

    @torch.inference_mode()
    def after() -> Tensor:
        return torch.cat([training.model(each) for each in training.batches]).cpu()

    return before, after


@pair("HST207", "copying 32 batches of 1 MB beside a small network's steps", needs_gpu=True)
def pageable_copies(device: torch.device) -> tuple[Work, Work]:
    one, other = Training(device), Training(device)
    pageable = [torch.randn(ROWS, 1024) for _ in range(STEPS)]
    pinned = [each.pin_memory() for each in pageable]

    def before() -> Tensor:
        total = torch.zeros((), device=device)
        for number in range(STEPS):
            total += pageable[number].to(device)[0, 0]
            one.step(number)
        return total

    def after() -> Tensor:
        total = torch.zeros((), device=device)
        for number in range(STEPS):
            total += pinned[number].to(device, non_blocking=True)[0, 0]
            other.step(number)
        return total

    return before, after


@pair("HST208", "a state of 256 x 512 made in each of 32 steps")
def made_on_host(device: torch.device) -> tuple[Work, Work]:
    one, other = Training(device), Training(device)

    def before() -> Tensor:
        total = torch.zeros((), device=device)
        for number in range(STEPS):
            total += torch.zeros(ROWS, 512).to(device)[0, 0]
            one.step(number)
        return total

    def after() -> Tensor:
        total = torch.zeros((), device=device)
        for number in range(STEPS):
            total += torch.zeros(ROWS, 512, device=device)[0, 0]
            other.step(number)
        return total

    return before, after


@pair("HST209", "a masked mean beside each of 32 steps")
def masked_rows(device: torch.device) -> tuple[Work, Work]:
    one, other = Training(device), Training(device)
    mask = torch.arange(ROWS, device=device) % 3 == 0

    def before() -> Tensor:
        total = torch.zeros((), device=device)
        for number in range(STEPS):
            one.step(number)
            total += one.batches[number][mask].mean()
        return total

    def after() -> Tensor:
        total = torch.zeros((), device=device)
        for number in range(STEPS):
            other.step(number)
            rows = other.batches[number]
            total += torch.where(mask[:, None], rows, 0).sum() / (mask.sum() * rows.shape[1])
        return total

    return before, after


@pair("HST211", "256 elements of a vector")
def scalar_writes(device: torch.device) -> tuple[Work, Work]:
    values = [float(each) for each in range(ROWS)]

    def before() -> Tensor:
        found = torch.zeros(ROWS, device=device)
        for number, value in enumerate(values):
            found[number] = value
        return found

    def after() -> Tensor:
        return torch.tensor(values, device=device)

    return before, after


# Memory


@pair("HST301", "32 steps of a small network", needs_gpu=True)
def emptied_cache(device: torch.device) -> tuple[Work, Work]:
    one, other = Training(device), Training(device)

    def before() -> None:
        one.steps(lambda loss: torch.cuda.empty_cache())

    def after() -> None:
        other.steps(lambda loss: None)

    return before, after


# Compute


@pair("HST401", "16 sequences of 512 in 8 heads of 64, forward and backward")
def attention(device: torch.device) -> tuple[Work, Work]:
    torch.manual_seed(0)
    q, k, v = (torch.randn(16, 8, 512, 64, device=device, requires_grad=True) for _ in range(3))

    def before() -> Tensor:
        scores = q @ k.transpose(-2, -1) / 8.0
        out = scores.softmax(-1) @ v
        out.sum().backward()
        return out.detach().mean()

    def after() -> Tensor:
        out = F.scaled_dot_product_attention(q, k, v)
        out.sum().backward()
        return out.detach().mean()

    return before, after


@pair("HST402", "updating 12 layers' 24 tensors")
def unfused_optimizer(device: torch.device) -> tuple[Work, Work]:
    def make(**settings: bool) -> Work:
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(12))).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **settings)
        for each in model.parameters():
            each.grad = torch.ones_like(each)

        def run() -> None:
            for _ in range(STEPS):
                optimizer.step()

        return run

    return make(), make(fused=True)


@pair("HST403", "a cell of 256 with four gates, 32 times")
def separate_gates(device: torch.device) -> tuple[Work, Work]:
    torch.manual_seed(0)
    gates = nn.ModuleList(nn.Linear(256, 256) for _ in range(4)).to(device)
    joint = nn.Linear(256, 1024).to(device)
    with torch.no_grad():
        joint.weight.copy_(torch.cat([each.weight for each in gates]))
        joint.bias.copy_(torch.cat([each.bias for each in gates]))
    x = torch.randn(64, 256, device=device)

    def before() -> Tensor:
        for _ in range(STEPS):
            i, f, g, o = (each(x) for each in gates)
        return i.mean() + f.mean() + g.mean() + o.mean()

    def after() -> Tensor:
        for _ in range(STEPS):
            i, f, g, o = joint(x).chunk(4, -1)
        return i.mean() + f.mean() + g.mean() + o.mean()

    return before, after


@pair("HST404", "64 moments of a GRU of 128, forward and backward")
def time_loop(device: torch.device) -> tuple[Work, Work]:
    torch.manual_seed(0)
    cell = nn.GRUCell(32, 128).to(device)
    whole = nn.GRU(32, 128).to(device)
    with torch.no_grad():
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(whole, f"{name}_l0").copy_(getattr(cell, name))
    x = torch.randn(64, 32, 32, device=device)

    def before() -> Tensor:
        state = torch.zeros(32, 128, device=device)
        for moment in x:
            state = cell(moment, state)
        state.sum().backward()
        return state.detach().mean()

    def after() -> Tensor:
        _, state = whole(x)
        state.sum().backward()
        return state.detach().mean()

    return before, after


@pair("HST406", "32 batches through a small network")
def gradients_in_inference(device: torch.device) -> tuple[Work, Work]:
    training = Training(device)

    def before() -> Tensor:
        return torch.stack([training.model(each).detach().mean() for each in training.batches])

    @torch.inference_mode()
    def after() -> Tensor:
        return torch.stack([training.model(each).mean() for each in training.batches])

    return before, after


@pair("HST409", "64 columns of a matrix")
def column_by_column(device: torch.device) -> tuple[Work, Work]:
    x = torch.rand(1024, 64, device=device)

    def before() -> Tensor:
        found = torch.empty_like(x)
        for column in range(x.shape[1]):
            found[:, column] = (x[:, column] - x[:, column].mean()) / x[:, column].std()
        return found

    def after() -> Tensor:
        return (x - x.mean(0)) / x.std(0)

    return before, after


@pair("HST410", "adding up 64 losses")
def python_sum(device: torch.device) -> tuple[Work, Work]:
    losses = list(torch.rand(64, device=device).unbind())

    def before() -> Tensor:
        return sum(losses) / len(losses)

    def after() -> Tensor:
        return torch.stack(losses).mean()

    return before, after


@pair("HST413", "clipping 24 gradients")
def clipped_one_by_one(device: torch.device) -> tuple[Work, Work]:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(12))).to(device)
    for each in model.parameters():
        each.grad = torch.rand_like(each)

    def before() -> None:
        total = 0.0
        for each in model.parameters():
            total += each.grad.norm().item() ** 2
        scale = min(1.0, 1e6 / (total**0.5 + 1e-6))
        for each in model.parameters():
            each.grad.mul_(scale)

    def after() -> None:
        clip_grad_norm_(model.parameters(), 1e6)

    return before, after


@pair("HST415", "256 rows through a small network")
def one_row_at_a_time(device: torch.device) -> tuple[Work, Work]:
    training = Training(device)
    rows = training.batches[0]

    @torch.inference_mode()
    def before() -> Tensor:
        return torch.cat([training.model(row[None]) for row in rows])

    @torch.inference_mode()
    def after() -> Tensor:
        return training.model(rows)

    return before, after


@pair("HST419", "a norm over 512 of 4096 rows, forward and backward")
def written_out_norm(device: torch.device) -> tuple[Work, Work]:
    torch.manual_seed(0)
    x = torch.randn(4096, 512, device=device, requires_grad=True)

    def before() -> Tensor:
        mean = x.mean(-1, keepdim=True)
        variance = x.var(-1, keepdim=True, unbiased=False)
        out = (x - mean) / torch.sqrt(variance + 1e-5)
        out.sum().backward()
        return out.detach().abs().mean()

    def after() -> Tensor:
        out = F.layer_norm(x, (512,))
        out.sum().backward()
        return out.detach().abs().mean()

    return before, after


@pair("HST420", "an activation of 4096 x 512, forward and backward")
def written_out_activation(device: torch.device) -> tuple[Work, Work]:
    torch.manual_seed(0)
    x = torch.randn(4096, 512, device=device, requires_grad=True)

    def before() -> Tensor:
        out = 0.5 * x * (1.0 + torch.erf(x / 2**0.5))
        out.sum().backward()
        return out.detach().mean()

    def after() -> Tensor:
        out = F.gelu(x)
        out.sum().backward()
        return out.detach().mean()

    return before, after


@pair("HST426", "32 steps of a small network")
def anomaly_mode(device: torch.device) -> tuple[Work, Work]:
    one, other = Training(device), Training(device)

    def before() -> None:
        with torch.autograd.set_detect_anomaly(True):
            one.steps(lambda loss: None)

    def after() -> None:
        other.steps(lambda loss: None)

    return before, after


@pair("HST428", "a loss for each of 256 samples")
def sample_by_sample(device: torch.device) -> tuple[Work, Work]:
    torch.manual_seed(0)
    scores = torch.randn(ROWS, 10, device=device)
    targets = torch.randint(10, (ROWS,), device=device)

    def before() -> Tensor:
        losses = [F.cross_entropy(scores[i : i + 1], targets[i : i + 1]) for i in range(ROWS)]
        return torch.stack(losses).mean()

    def after() -> Tensor:
        return F.cross_entropy(scores, targets)

    return before, after


@pair("HST430", "an ensemble of 8 small networks")
def members_one_by_one(device: torch.device) -> tuple[Work, Work]:
    torch.manual_seed(0)
    members = [nn.Linear(64, 64).to(device) for _ in range(8)]
    weights = torch.stack([each.weight.detach() for each in members])
    biases = torch.stack([each.bias.detach() for each in members])
    x = torch.randn(64, 64, device=device)

    @torch.inference_mode()
    def before() -> Tensor:
        for _ in range(STEPS):
            found = torch.stack([member(x) for member in members]).mean(0)
        return found

    @torch.inference_mode()
    def after() -> Tensor:
        for _ in range(STEPS):
            found = torch.baddbmm(biases[:, None], x.expand(8, -1, -1), weights.mT).mean(0)
        return found

    return before, after


@pair("HST432", "4096 ids of 10,000, into vectors of 64")
def one_hot_product(device: torch.device) -> tuple[Work, Work]:
    torch.manual_seed(0)
    ids = torch.randint(10_000, (4096,), device=device)
    table = torch.randn(10_000, 64, device=device)

    def before() -> Tensor:
        return F.one_hot(ids, 10_000).float() @ table

    def after() -> Tensor:
        return F.embedding(ids, table)

    return before, after


# Data


class Rows(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((count, 32), dtype=np.float32)
        self.y = rng.integers(10, size=count)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.x[index]), torch.tensor(self.y[index])


@pair("HST101", "an epoch of 8,192 rows in batches of 256")
def loader_over_tensors(device: torch.device) -> tuple[Work, Work]:
    rows = Rows(8192)
    data = TensorDataset(torch.from_numpy(rows.x), torch.from_numpy(rows.y))

    def before() -> float:
        return sum(float(x[0, 0]) for x, _ in DataLoader(data, batch_size=ROWS))

    def after() -> float:
        x, _ = data.tensors
        return sum(float(x[start : start + ROWS][0, 0]) for start in range(0, len(x), ROWS))

    return before, after


@pair("HST104", "an epoch of 8,192 rows in batches of 256")
def rows_one_by_one(device: torch.device) -> tuple[Work, Work]:
    data = Rows(8192)

    def before() -> float:
        return sum(float(x[0, 0]) for x, _ in DataLoader(data, batch_size=ROWS))

    def after() -> float:
        x = torch.from_numpy(data.x)
        return sum(float(x[start : start + ROWS][0, 0]) for start in range(0, len(x), ROWS))

    return before, after


@pair("HST110", "a column of 20,000")
def pandas_apply(device: torch.device) -> tuple[Work, Work]:
    frame = pd.DataFrame(np.random.default_rng(0).random((20_000, 3)), columns=["a", "b", "c"])

    def before() -> float:
        return float(frame.apply(lambda row: row["a"] * row["b"] + row["c"], axis=1).sum())

    def after() -> float:
        return float((frame["a"] * frame["b"] + frame["c"]).sum())

    return before, after


@pair("HST111", "a frame of 10,000 rows")
def pandas_iterrows(device: torch.device) -> tuple[Work, Work]:
    frame = pd.DataFrame(np.random.default_rng(0).random((10_000, 3)), columns=["a", "b", "c"])

    def before() -> float:
        return float(sum(row["a"] * row["b"] for _, row in frame.iterrows()))

    def after() -> float:
        return float((frame["a"] * frame["b"]).sum())

    return before, after


@pair("HST115", "2,000 look-ups in a list of 2,000")
def searched_list(device: torch.device) -> tuple[Work, Work]:
    known = [f"name {each}" for each in range(2000)]
    asked = known[::-1]

    def before() -> int:
        return sum(each in known for each in asked)

    def after() -> int:
        held = set(known)
        return sum(each in held for each in asked)

    return before, after


@pair("HST120", "200 batches of 64 rows")
def grown_array(device: torch.device) -> tuple[Work, Work]:
    parts = [np.ones((64, 128), dtype=np.float32) for _ in range(200)]

    def before() -> float:
        found = np.zeros((0, 128), dtype=np.float32)
        for each in parts:
            found = np.concatenate([found, each])
        return float(found.sum())

    def after() -> float:
        return float(np.concatenate(parts).sum())

    return before, after


@pair("HST127", "512 arrays of 256 numbers")
def tensor_of_arrays(device: torch.device) -> tuple[Work, Work]:
    parts = list(np.random.default_rng(0).random((512, 256)))

    def before() -> Tensor:
        return torch.tensor(parts)

    def after() -> Tensor:
        return torch.from_numpy(np.stack(parts))

    return before, after


@pair("HST139", "an array of 200 x 200")
def elements_in_loop(device: torch.device) -> tuple[Work, Work]:
    x = np.random.default_rng(0).random((200, 200))

    def before() -> float:
        total = 0.0
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if x[i, j] > 0.5:
                    total += x[i, j]
        return total

    def after() -> float:
        return float(x[x > 0.5].sum())

    return before, after
