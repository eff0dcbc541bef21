"""How long does a checkpoint stop the training, and how much does it slow the steps beside it?

A model and its AdamW state, as many bytes as asked for, are saved in pairs within one process, in
random order within each pair: by ``BackgroundWriter.save``, whose call is timed (the stall) and
beside whose write steps go on, and by a copy to kept host buffers with ``Store.write`` after it
(the synchronous write), after which steps run alone. A ratio is of one pair; of all pairs
the median is told with the smallest and the largest. The first save, which takes fresh memory from
the kernel, is told apart. ``lost_ratio`` is all that a background save costs the training, as part
of the synchronous write: the stall, and what the steps beside the write take more than alone, by
their medians. Files go to a real disk and are flushed.
"""

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hasten.checkpoint.background import BackgroundWriter
from hasten.checkpoint.codec import encode
from hasten.checkpoint.host_buffers import HostBuffers
from hasten.checkpoint.store import Content, Store
from hasten.records.checkpoint import CHECKPOINT_FORMAT, Manifest, Position
from results_file import RESULTS, write_results

WIDTH = 1024
BATCH = 32
STEPS_ALONE = 10
BAR = 0.05


class Training:
    """Linear layers, as many as the bytes ask for: each weight is held three times."""

    def __init__(self, size: int, device: str) -> None:
        layers = max(1, size // (3 * 4 * WIDTH * (WIDTH + 1)))
        self.model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(layers)]).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(BATCH, WIDTH, device=device)
        self.steps = 0
        self.step()  # makes the optimizer's state

    def step(self) -> float:
        start = time.perf_counter()
        self.optimizer.zero_grad()
        self.model(self.batch).square().mean().backward()
        self.optimizer.step()
        self.synchronize()
        self.steps += 1
        return time.perf_counter() - start

    def synchronize(self) -> None:
        if self.batch.is_cuda:
            torch.cuda.synchronize()

    def content(self, number: int) -> Content:
        skeleton, tensors = encode(self.optimizer.state_dict(), "optimizer 0")
        return Content(_manifest(number), self.model.state_dict(), skeleton, tensors)

    def size(self) -> int:
        content = self.content(0)
        tensors = [*content.model.values(), *content.tensors.values()]
        return sum(each.nbytes for each in tensors)


def main() -> None:
    arguments = _parse()
    training = Training(arguments.megabytes * 1_000_000, arguments.device)
    rows = []
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as folder,
        Store(Path(folder)) as store,
        BackgroundWriter(store) as writer,
    ):
        bench = Bench(training, store, writer)
        first = bench.save_beside(steps=False)
        bench.save_at_once()
        order = random.Random(arguments.seed)
        for _ in range(arguments.pairs):
            rows.append(bench.pair(beside_first=order.random() < 0.5))
            print({key: _short(value) for key, value in rows[-1].items()})
    figures = {
        "state_bytes": training.size(),
        "tensors": len(training.model.state_dict()) * 4,
        "pairs": arguments.pairs,
        "torch_threads": torch.get_num_threads(),
        "first_stall_s": first["stall_s"],
        **{key: _spread([row[key] for row in rows]) for key in SPREAD},
        "bar": BAR,
        "is_below_bar": statistics.median(row["stall_ratio"] for row in rows) < BAR,
        "rows": rows,
    }
    for key in SPREAD:
        print(f"{key:16}{figures[key]}")
    write_results(
        f"checkpoint-stall-{arguments.device}",
        figures,
        commit=arguments.commit,
        folder=arguments.out,
    )


SPREAD = ("stall_s", "synchronous_s", "stall_ratio", "slowdown", "lost_ratio")


class Bench:
    def __init__(self, training: Training, store: Store, writer: BackgroundWriter) -> None:
        self._training = training
        self._store = store
        self._writer = writer
        self._buffers = HostBuffers()
        self._number = 0

    def pair(self, *, beside_first: bool) -> dict[str, Any]:
        if beside_first:
            beside = self.save_beside()
            alone = self.save_at_once(STEPS_ALONE)
        else:
            alone = self.save_at_once(STEPS_ALONE)
            beside = self.save_beside()
        step_s = statistics.median(alone["steps"])
        beside_s = statistics.median(beside["steps"])
        lost = beside["stall_s"] + len(beside["steps"]) * (beside_s - step_s)
        return {
            "beside_first": beside_first,
            "stall_s": beside["stall_s"],
            "synchronous_s": alone["synchronous_s"],
            "stall_ratio": beside["stall_s"] / alone["synchronous_s"],
            "steps_beside": len(beside["steps"]),
            "step_beside_s": beside_s,
            "step_alone_s": step_s,
            "slowdown": beside_s / step_s,
            "lost_ratio": lost / alone["synchronous_s"],
        }

    def save_beside(self, *, steps: bool = True) -> dict[str, Any]:
        """Steps that began while the write was going on."""
        content = self._next()
        start = time.perf_counter()
        self._writer.save(content)
        stall_s = time.perf_counter() - start
        times = []
        while steps and self._writer.is_busy:
            times.append(self._training.step())
        self._writer.wait()
        return {"stall_s": stall_s, "steps": times}

    def save_at_once(self, steps: int = 0) -> dict[str, Any]:
        content = self._next()
        start = time.perf_counter()
        names = [*content.model, *content.tensors]
        hosts = self._buffers.copy([*content.model.values(), *content.tensors.values()])
        count = len(content.model)
        self._store.write(
            Content(
                content.manifest,
                dict(zip(names[:count], hosts[:count], strict=True)),
                content.skeleton,
                dict(zip(names[count:], hosts[count:], strict=True)),
            )
        )
        synchronous_s = time.perf_counter() - start
        return {
            "synchronous_s": synchronous_s,
            "steps": [self._training.step() for _ in range(steps)],
        }

    def _next(self) -> Content:
        self._number += 1
        content = self._training.content(self._number)
        self._training.synchronize()
        return content


def _manifest(step: int) -> Manifest:
    return Manifest(
        format=CHECKPOINT_FORMAT,
        hasten="",
        torch=str(torch.__version__),
        created="",
        task=None,
        seed=0,
        plan={},
        position=Position(step=step, epoch=0, batches=0),
        batches_per_epoch=None,
        healthy=True,
        weights={},
        optimizers=("AdamW of 2 weights",),
        schedulers=(),
        files=(),
    )


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 4),
        "smallest": round(min(values), 4),
        "largest": round(max(values), 4),
    }


def _short(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cpu")
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to write to")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--commit", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
