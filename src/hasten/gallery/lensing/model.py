"""ResNet-18 as torchvision builds it, with the same parameters in the same places; its scales."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hasten.gallery.lensing.data import BANDS, CLASSES


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions around which the input is added, resized where it has to be."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, images: Tensor) -> Tensor:
        added: Tensor = self.convolutions(images) + self.shortcut(images)
        return torch.relu(added)


class ResNet18(nn.Module):
    """One logit for each class, of images of any size. ``width`` is 64 in the original.

    ``dropout`` is of the features before the head, as Monte-Carlo dropout wants it; the original
    has none, and none adds no module.
    """

    def __init__(self, width: int = 64, classes: int = CLASSES, dropout: float = 0.0) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(BANDS, width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.stages = nn.Sequential(
            make_stage(width, width, stride=1),
            make_stage(width, 2 * width, stride=2),
            make_stage(2 * width, 4 * width, stride=2),
            make_stage(4 * width, 8 * width, stride=2),
        )
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        if dropout:
            self.pool.append(nn.Dropout(dropout))
        self.head = nn.Linear(8 * width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.pool(self.stages(self.stem(images))))
        return logits


def make_stage(channels_in: int, channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        ResidualBlock(channels_in, channels, stride), ResidualBlock(channels, channels, stride=1)
    )


class ManyScales(nn.Module):
    """A network that sees each image whole, one that sees it at half its pixels a side, and so on.

    Logits of every scale, (rows, scales, classes): all scales are in one graph. The networks share
    nothing: running statistics of BatchNorm that mix scales fit none of them.
    """

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, images: Tensor) -> Tensor:
        seen = [F.avg_pool2d(images, 2**scale) for scale in range(len(self.networks))]
        logits = [network(each) for network, each in zip(self.networks, seen, strict=True)]
        return torch.stack(logits, dim=1)


def loss_of_scales(outputs: Tensor, targets: Tensor) -> Tensor:
    """The sum of the cross entropies of the scales."""
    losses = [F.cross_entropy(logits, targets) for logits in outputs.unbind(dim=1)]
    return torch.stack(losses).sum()
