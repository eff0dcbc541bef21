"""The same training as ``gallery:lensing``, as a plain script of the kind that it stands for.

Slow on purpose, and to be kept so. Its mistakes, all of them common:

- every image file is opened, decompressed and parsed again in every epoch, in ``__getitem__``
- stretch and scales are computed there too, an image at a time, in the process that trains, which
  meanwhile computes nothing else
- all scales are held in one graph, which keeps the activations of all of them until the backward
  pass, though their losses only add up
- the loss of every step is read from the device
- each Monte-Carlo sample of each member decodes the files again and runs the whole network again,
  though only what comes after the dropout differs
- the area under the curve compares each lens with each look-alike in Python

Run it with ``python -m hasten.gallery.lensing.naive``.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from hasten.gallery.lensing.data import EVALUATION_SEED, TRAINING_SEED
from hasten.gallery.lensing.files import image_folder, read_catalogue
from hasten.gallery.lensing.fits import read_fits

TRAINING_ROWS, EVALUATION_ROWS = 1024, 256
PIXELS = 48
SCALES = [1, 2, 4]
BATCH_SIZE = 32

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class LensDataset(Dataset[tuple[list[Tensor], int]]):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalogue = read_catalogue(folder)

    def __len__(self) -> int:
        return len(self.catalogue)

    def __getitem__(self, index: int) -> tuple[list[Tensor], int]:
        name, label = self.catalogue[index]
        image = torch.from_numpy(np.arcsinh(read_fits(self.folder / name) / 5))
        return [F.avg_pool2d(image, scale) for scale in SCALES], label


class BasicBlock(nn.Module):
    def __init__(self, in_planes: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = nn.Sequential()
        if stride != 1 or in_planes != planes:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_planes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.downsample(x))


class ScaleNet(nn.Module):
    """A narrow ResNet-18 with dropout before its last layer."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks: list[nn.Module] = []
        planes = width
        for stage in range(4):
            blocks.append(BasicBlock(planes, width * 2**stage, stride=1 if stage == 0 else 2))
            planes = width * 2**stage
            blocks.append(BasicBlock(planes, planes, stride=1))
        self.blocks = nn.Sequential(*blocks)
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(planes, 2)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.blocks(x).mean(dim=(2, 3))
        logits: Tensor = self.fc(self.dropout(x))
        return logits


class LensFinder(nn.Module):
    """A network for each scale."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList([ScaleNet() for _ in SCALES])

    def forward(self, images: list[Tensor]) -> list[Tensor]:
        return [net(image) for net, image in zip(self.nets, images, strict=True)]


def train(model: LensFinder, dataset: LensDataset, epochs: int) -> list[float]:
    """Train in place. Returns the loss of every step."""
    loader = DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses = []
    model.train()
    for epoch in range(epochs):
        for images, labels in loader:
            images, labels = [image.to(device) for image in images], labels.to(device)
            optimizer.zero_grad()
            outputs = model(images)
            loss = criterion(outputs[0], labels)
            for output in outputs[1:]:
                loss = loss + criterion(output, labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {sum(losses[-len(loader) :]) / len(loader):.4f}")
    return losses


def predict(models: list[LensFinder], dataset: LensDataset, samples: int) -> list[float]:
    """How likely each image is a lens: the mean over members, dropout samples and scales."""
    total = torch.zeros(len(dataset))
    for model in models:
        model.eval()
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.train()
        for _ in range(samples):
            scores = []
            for images, _labels in DataLoader(dataset, batch_size=BATCH_SIZE):
                with torch.no_grad():
                    outputs = torch.stack(model([image.to(device) for image in images]))
                scores.append(outputs.softmax(dim=2)[:, :, 1].mean(dim=0).cpu())
            total += torch.cat(scores)
    return [score.item() for score in total / (len(models) * samples)]


def area_under_curve(scores: list[float], labels: list[int]) -> float:
    """How often a lens has a higher score than a look-alike."""
    wins, pairs = 0.0, 0
    for lens_score, lens_label in zip(scores, labels, strict=True):
        for other_score, other_label in zip(scores, labels, strict=True):
            if lens_label == 1 and other_label == 0:
                pairs += 1
                if lens_score > other_score:
                    wins += 1
                elif lens_score == other_score:
                    wins += 0.5
    return wins / pairs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, default=2, help="networks in the ensemble")
    parser.add_argument("--samples", type=int, default=5, help="of dropout, for each member")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="of the first member")
    args = parser.parse_args()
    if min(args.members, args.samples) < 1:
        parser.error("an ensemble has 1 member and 1 sample at least")

    dataset = LensDataset(image_folder(TRAINING_ROWS, PIXELS, TRAINING_SEED))
    models = []
    for member in range(args.members):
        torch.manual_seed(args.seed + member)
        model = LensFinder().to(device)
        train(model, dataset, args.epochs)
        models.append(model)
    evaluation = LensDataset(image_folder(EVALUATION_ROWS, PIXELS, EVALUATION_SEED))
    scores = predict(models, evaluation, args.samples)
    labels = [label for _, label in evaluation.catalogue]
    print(f"auc: {area_under_curve(scores, labels):.4f}")


if __name__ == "__main__":
    main()
