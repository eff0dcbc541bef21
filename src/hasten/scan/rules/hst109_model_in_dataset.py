"""A model that runs within a data set."""

import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import in_dataset
from hasten.scan.trace import last_name

MODELS = re.compile(
    r"(^|_)(model|encoder|decoder|net|network|teacher|embedder|backbone|vae|clip|bert|vqgan)$"
)


LABELS = re.compile(r"^(y|cls)$|(^|_)(label|labels|target|targets|class|category|name)$")
"""What an encoder of categories is given, which is a table."""


class ModelInDataset(Rule):
    code = "HST109"
    name = "model-runs-in-dataset"
    why = (
        "A model that is asked for one sample or a few leaves the device nearly idle, and answers"
        " the same in every epoch; workers cannot share it."
    )
    instead = "Run it over all samples once, in large batches, and keep what it gives."
    verify = "Compare what is kept with what the model gives for some samples."
    effort = "an hour"
    risk = "what is kept takes memory or disk"
    calls = (
        "encode", "predict", "generate", "forward", "model", "net", "encoder", "teacher",
        "teacher_model", "embed", "embedder", "encode_text", "encode_image", "backbone",
    )  # fmt: skip
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "high"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch.utils.data import Dataset

class Distilled(Dataset):
    def __getitem__(self, index):
        target = self.teacher_model.encode(self.texts[index])  # !
        code = self.vae.encode(self.x[index])  # !
        return target, code, self.net(self.x[index])  # !
""",
        """\
import torch
from torch.utils.data import Dataset

class Texts(Dataset):
    def __init__(self, texts, model):
        self.targets = model.encode(texts, batch_size=256)

    def __getitem__(self, index):
        label = self.labels[index]
        ids = self.tokenizer.encode(self.texts[index]), self.encoder.encode(label)
        return self.texts[index].encode("utf-8"), ids
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if not in_dataset(site):
            return
        called = look.source(site.node.func)
        if any(map(LABELS.search, map(last_name, site.node.args))):
            return
        if any(MODELS.search(part.lower()) for part in called.split(".")):
            yield Found(site.node, f"`{called}` runs a model within a data set")
