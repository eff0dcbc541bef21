"""A generative model that is sampled from in the middle of its training."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name

SAMPLED = re.compile(
    r"model|sampler|diffusion|generator|pipeline|unet|flow|ema|net$", re.IGNORECASE
)
SCORES = ("fid_score", "compute_fid", "calculate_fid", "evaluate_fid", "inception_score")


class SamplingInTraining(Rule):
    code = "HST418"
    name = "sampling-in-training"
    why = (
        "Drawing samples or scoring them runs the model hundreds of times, while training waits;"
        " outside of autocast it does so in full precision."
    )
    instead = (
        "Do it seldom, with few samples and steps, under `inference_mode` and autocast; or in"
        " another process from a checkpoint."
    )
    risk = "scores of fewer samples are noisier"
    calls = ("sample", *SCORES)
    least = Heat.ONCE
    severity = "low"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def train(model, ema, loader, optimizer, scorer):
    for step, x in enumerate(loader):
        model(x).backward()
        optimizer.step()
        if step % 1000 == 0:
            images = [ema.ema_model.sample(batch_size=16) for _ in range(4)]  # !
            print(scorer.fid_score())  # !
""",
        """\
import torch

def train(model, loader, optimizer, memory):
    for step, x in enumerate(loader):
        batch = memory.sample(64)
        noise = torch.distributions.Normal(0, 1).sample((8,))
        model(batch + noise).backward()
        optimizer.step()
    return model.sample(batch_size=16)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.loop is None and not isinstance(site.parent, ast.Lambda):
            return
        if site.called == "sample":
            has_size = any(word.arg in SIZES for word in site.node.keywords)
            if not has_size or not SAMPLED.search(last_name(receiver(site.node))):
                return
        yield Found(site.node, f"`{look.source(site.node.func)}` runs while training waits")


SIZES = ("batch_size", "num_samples", "n_samples", "n", "shape")
