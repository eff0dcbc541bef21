"""When a training is saved, and what goes into its checkpoints."""

import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from hasten import __version__
from hasten.checkpoint.background import BackgroundWriter
from hasten.checkpoint.codec import encode
from hasten.checkpoint.folders import name_of
from hasten.checkpoint.store import Content, Store
from hasten.checkpoint.tensor_file import make_header
from hasten.data.loaders.epochs import EpochStart
from hasten.records.checkpoint import CHECKPOINT_FORMAT, Manifest, Position
from hasten.records.plan import RawPart
from hasten.runtime.run import Run
from hasten.task.digest import digest
from hasten.train.resume import batches_per_epoch, form, optimizers_of, schedulers_of
from hasten.train.state import capture, weights_of

INTERVAL_S = 600.0
"""Where nothing else is asked for: so much training may be lost."""


class Saver:
    """Writes checkpoints of one run into one folder, in the background."""

    def __init__(
        self,
        run: Run,
        store: Store,
        *,
        every: int | None,
        task: str | None,
        seed: int,
        plan: dict[str, RawPart],
        gone_on_from: Path | None,
        from_step: int,
    ) -> None:
        self._run, self._every = run, every
        self._task, self._seed, self._plan = task, seed, plan
        self._done: deque[Path] = deque()
        self._writer = BackgroundWriter(store, on_done=self._done.append)
        self._last_s = time.monotonic()
        self._handed_over: dict[str, tuple[Manifest, float]] = {}
        self.saved_step = from_step if gone_on_from is not None else None
        """Of the last checkpoint that was handed over, or gone on from."""
        self.path = gone_on_from
        """The last checkpoint that is whole."""
        self.is_healthy = True
        """Of that one; others are not gone on from."""
        self.folder = store.folder

    def is_due(self, step: int) -> bool:
        """A save that is still under way is not waited for."""
        if self._writer.is_busy:
            return False
        if self._every is None:
            return time.monotonic() - self._last_s >= INTERVAL_S
        return step % self._every == 0 or step - (self.saved_step or 0) > self._every

    def save(self, position: Position, start: EpochStart, batch: Any) -> None:
        """Between two steps; ``batch`` is the last one that was consumed."""
        began = time.monotonic()
        content = self._content(position, start, batch)
        self._writer.save(content)
        self.saved_step, self._last_s = position.step, time.monotonic()
        self._handed_over[name_of(position.step)] = content.manifest, self._last_s - began

    def try_out(self, position: Position, start: EpochStart, batch: Any) -> None:
        """Find out early whether everything can be held by a checkpoint."""
        content = self._content(position, start, batch)
        make_header(content.model)
        make_header(content.tensors)

    def finished(self) -> list[tuple[Path, Manifest, float]]:
        """Checkpoints that have become whole since, each with how long training stood still."""
        found = []
        while self._done:
            self.path = self._done.popleft()
            manifest, stalled_s = self._handed_over.pop(self.path.name)
            self.is_healthy = manifest.healthy
            found.append((self.path, manifest, stalled_s))
        return found

    def wait(self) -> None:
        self._writer.wait()

    def close(self) -> None:
        self._writer.close()

    def _content(self, position: Position, start: EpochStart, batch: Any) -> Content:
        weights = weights_of(self._run.model)
        last = None if batch is None else digest(batch)
        tree = capture(self._run, weights, start, last)
        skeleton, tensors = encode(tree, where="the training")
        return Content(
            manifest=Manifest(
                format=CHECKPOINT_FORMAT,
                hasten=__version__,
                torch=str(torch.__version__),
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                task=self._task,
                seed=self._seed,
                plan=self._plan,
                position=position,
                batches_per_epoch=batches_per_epoch(self._run),
                healthy=_is_finite(self._run),
                weights={name: form(each) for name, each in weights.items()},
                optimizers=optimizers_of(self._run),
                schedulers=schedulers_of(self._run),
                files=(),
            ),
            model=weights,
            skeleton=skeleton,
            tensors=tensors,
        )


@torch.no_grad()
def _is_finite(run: Run) -> bool:
    """Every weight; one question to the device. A sum is quick to take, and one that is not finite
    may still be of finite weights."""
    weights = [each for each in run.model.parameters() if each.is_floating_point()]
    if not weights:
        return True
    sums = torch.stack([each.sum(dtype=torch.float32) for each in weights])
    return bool(sums.isfinite().all()) or all(bool(each.isfinite().all()) for each in weights)
