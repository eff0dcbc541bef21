"""A training that is saved, and what the checkpoint holds in the end."""

from pathlib import Path

from safetensors.torch import load_file

from hasten.checkpoint.folders import Saved
from hasten.checkpoint.store import Store
from hasten.measure.messages import Trained, TrainFor
from hasten.measure.numerics import make_deterministic
from hasten.records.checkpoint import MODEL
from hasten.task.digest import digest
from hasten.task.load import build_task, load_factory
from hasten.train.fit import train
from hasten.train.signals import StopRequest
from hasten.train.state import COMPILED
from hasten.train.wanted import Wanted


def train_for(request: TrainFor) -> Trained:
    make_deterministic()
    folder = Path(request.folder)
    wanted = Wanted(
        task=request.task,
        plan=request.plan,
        steps=request.steps,
        seed=None if request.resume else request.seed,
        checkpoint_dir=folder,
        resume=request.resume,
    )
    summary = train(wanted, StopRequest())
    saved = Store(folder).read()
    _load_plainly(request, saved)
    return Trained(
        state=_digests(saved),
        applied=summary.applied,
        batches_per_epoch=saved.manifest.batches_per_epoch,
    )


def _load_plainly(request: TrainFor, saved: Saved) -> None:
    """As a program without Hasten would; what does not fit is raised."""
    model = build_task(load_factory(request.task), request.task, request.seed).model
    plain = getattr(model, COMPILED, model)
    plain.load_state_dict(load_file(saved.path / MODEL))


def _digests(saved: Saved) -> dict[str, str]:
    tensors = {**saved.model, **saved.tensors}
    return {name: digest(each) for name, each in tensors.items()} | {
        "all else": digest(saved.skeleton)
    }
