"""A transform that is made anew for each sample."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import SAMPLE_FUNCTIONS, Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import in_dataset

PACKAGES = ("torchvision.", "torchaudio.", "albumentations.", "monai.", "transforms.")


class TransformPerSample(Rule):
    code = "HST151"
    name = "transform-made-per-sample"
    why = (
        "Making a transform checks its arguments and computes its windows, filters or kernels,"
        " which often takes longer than to apply it."
    )
    instead = "Make it once in `__init__`; where it depends on a rate, keep one for each rate."
    verify = "Compare a sample of both versions."
    effort = "a minute"
    calls = (
        "Compose", "Resample", "MelSpectrogram", "Spectrogram", "MFCC", "AmplitudeToDB", "MelScale",
        "LFCC", "GriffinLim",
    )  # fmt: skip
    least = Heat.ONCE
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torchaudio
from torch.utils.data import Dataset
from torchvision import transforms as T

class Images(Dataset):
    def __getitem__(self, index):
        transform = T.Compose([T.Resize(256), T.ToTensor()])  # !
        return transform(self.images[index])

class Sounds(Dataset):
    def __getitem__(self, index):
        sound, rate = torchaudio.load(self.paths[index])
        return torchaudio.transforms.Resample(rate, 16000)(sound)  # !
""",
        """\
import torchaudio
from torch.utils.data import Dataset
from torchvision import transforms as T

class Images(Dataset):
    def __init__(self, size):
        self.transform = T.Compose([T.Resize(size), T.ToTensor()])

    def __getitem__(self, index):
        return self.transform(self.images[index])

    def resampler(self, rate):
        if rate not in self.resamplers:
            self.resamplers[rate] = torchaudio.transforms.Resample(rate, 16000)
        return self.resamplers[rate]
""",
        """\
import albumentations as A
from torch.utils.data import Dataset

class Images(Dataset):
    def __getitem__(self, index):
        return A.Compose([A.Resize(256, 256)])(image=self.images[index])  # !

class Tunes(Dataset):
    def __getitem__(self, index):
        T = self.tunes[index]
        return T.Compose(self.parts)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if site.function.last_name not in SAMPLE_FUNCTIONS or not in_dataset(site):
            return
        if isinstance(site.statement, ast.Assign) and isinstance(
            site.statement.targets[0], ast.Attribute | ast.Subscript
        ):
            return  # it is kept
        if look.dotted(site.node.func).startswith(PACKAGES):
            yield Found(site.node, f"`{look.source(site.node.func)}` is made for each sample")
