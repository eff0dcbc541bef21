"""The lensing workload: its optics, its images, its scales, its metric, and its plain script."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from hasten.gallery.lensing import camera, data, light, naive, scenes
from hasten.gallery.lensing.about import WORKLOAD
from hasten.gallery.lensing.data import EVALUATION_SEED, TRAINING_SEED, draw_counts, make_images
from hasten.gallery.lensing.files import image_folder
from hasten.gallery.lensing.lens import deflect
from hasten.gallery.lensing.metric import area_under_curve, auc
from hasten.gallery.lensing.model import ManyScales, ResNet18, loss_of_scales
from hasten.gallery.lensing.task import SIZES, Size, factory, make_model
from hasten.task.seed import seed_everything
from hasten.task.task import Task, training_device

STEPS = 50


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


def bent(x: float, y: float, axis_ratio: float, angle: float = 0.0, shear: float = 0.0) -> Tensor:
    """The deflection by a lens of an Einstein radius of 1.3, in 64 bits."""
    values = (np.array(each) for each in (x, y, 1.3, axis_ratio, angle, shear))
    x_, y_, radius, ratio, angle_, shear_ = values
    by = deflect(x_, y_, radius=radius, axis_ratio=ratio, angle=angle_, shear=shear_)
    return torch.tensor([float(each) for each in by], dtype=torch.float64)


def slopes(x: float, y: float, axis_ratio: float, angle: float) -> Tensor:
    """[[d x', d y'] / d x, [d x', d y'] / d y] of the deflection, by differences."""
    step = 1e-4
    along = bent(x + step, y, axis_ratio, angle) - bent(x - step, y, axis_ratio, angle)
    across = bent(x, y + step, axis_ratio, angle) - bent(x, y - step, axis_ratio, angle)
    return torch.stack([along, across]) / (2 * step)


@pytest.mark.parametrize(("x", "y"), [(0.3, 0.1), (-2.0, 1.0), (0.0, -1.3)])
def test_a_round_lens_bends_every_ray_inwards_by_its_einstein_radius(x: float, y: float) -> None:
    by = bent(x, y, axis_ratio=0.9999)
    assert by.norm().item() == pytest.approx(1.3, rel=1e-3)
    assert (by @ torch.tensor([x, y], dtype=torch.float64) > 0).item()
    assert by[0].item() * y == pytest.approx(by[1].item() * x, abs=1e-3)


@pytest.mark.parametrize("axis_ratio", [0.95, 0.7, 0.5])
def test_half_the_critical_convergence_lies_on_an_ellipse_of_the_einstein_circles_area(
    axis_ratio: float,
) -> None:
    longer, shorter = 1.3 / axis_ratio**0.5, 1.3 * axis_ratio**0.5
    for place in ((longer, 0.0), (0.0, shorter), (longer * 0.6, shorter * 0.8)):
        convergence = slopes(*place, axis_ratio, 0.0).trace().item() / 2
        assert convergence == pytest.approx(0.5, rel=1e-4)


def test_a_deflection_is_the_slope_of_a_potential() -> None:
    for place in ((0.4, 0.9), (-1.5, 0.2), (1.0, -2.0)):
        changes = slopes(*place, axis_ratio=0.6, angle=0.7)
        assert changes[0, 1].item() == pytest.approx(changes[1, 0].item(), abs=1e-5)


def test_shear_pulls_along_the_lens_and_pushes_across_it() -> None:
    added = bent(0.8, 0.5, 0.7, shear=0.1) - bent(0.8, 0.5, 0.7)
    torch.testing.assert_close(added, torch.tensor([0.08, -0.05], dtype=torch.float64))


def test_a_source_behind_a_round_lens_has_its_two_images_where_they_belong() -> None:
    """Offset by 0.2 behind an Einstein radius of 1.2: at 1.4, and opposite at 1.0."""
    x, y = camera.places(256)
    one = np.ones((1, 1, 1), np.float32)
    lens = {"radius": 1.2 * one, "axis_ratio": 0.9999 * one, "angle": 0 * one, "shear": 0 * one}
    by_x, by_y = deflect(x, y, **lens)
    source = {"radius": 0.03 * one, "index": one, "axis_ratio": one, "angle": 0 * one}
    seen = light.galaxy(x - by_x - 0.2, y - by_y, **source)[0]
    left, right = (int(half.max(axis=0).argmax()) for half in (seen[:, :128], seen[:, 128:]))
    assert x[0, 0, left] == pytest.approx(-1.0, abs=0.04)
    assert x[0, 0, 128 + right] == pytest.approx(1.4, abs=0.04)
    assert seen[:, :128].sum() < seen[:, 128:].sum()


def test_blur_keeps_the_light_and_spreads_it_by_its_width() -> None:
    point = np.zeros((2, 64, 64), np.float32)
    point[:, 30, 33] = 5.0
    width = np.array([0.2, 0.4], np.float32)[:, None, None]
    spread = camera.blur(point, width)
    assert spread.sum(axis=(1, 2)) == pytest.approx([5.0, 5.0], rel=1e-5)
    x, y = camera.places(64)
    for away in (x - x[..., 33:34], y - y[:, 30:31]):
        variance = (spread * away**2).sum(axis=(1, 2)) / 5
        assert variance == pytest.approx([0.04, 0.16], rel=0.05)


def test_the_noise_is_that_of_counting() -> None:
    clean = np.full((8, 3, 64, 64), 9.0, np.float32)
    sky = camera.SKY * (camera.FIELD / 64) ** 2
    taken = camera.expose(np.random.default_rng(3), clean)
    assert taken.dtype == np.float32
    assert taken.mean() == pytest.approx(9.0, abs=0.1)
    assert taken.var() == pytest.approx(9.0 + sky, rel=0.03)


@pytest.mark.parametrize("scene", [scenes.lensed, *scenes.LOOK_ALIKES])
def test_every_scene_is_light_within_the_field(scene: scenes.Scene) -> None:
    draw = scenes.Draw(np.random.default_rng(5), 20)
    seen = scene(draw, data._draw_galaxy(draw, 48))
    assert seen.shape == (20, 48, 48)
    assert seen.dtype == np.float32
    assert np.isfinite(seen).all()
    assert (seen >= 0).all()
    edge = np.concatenate([seen[:, 0], seen[:, -1], seen[:, :, 0], seen[:, :, -1]], axis=1)
    assert np.median(edge.sum(axis=1) / seen.sum(axis=(1, 2))) < 0.02  # evenly spread: 0.08


def test_brightness_alone_does_not_tell_a_lens() -> None:
    counts, classes = draw_counts(slice(0, 800), 24, seed=11)
    assert 0.4 < classes.mean() < 0.6
    total = torch.from_numpy(counts.sum(axis=(1, 2, 3)))
    assert 0.4 < area_under_curve(total, torch.from_numpy(classes)).item() < 0.6


def test_the_margin_is_more_than_bands_tell_and_less_than_distances_from_the_middle() -> None:
    x, y = camera.places(SIZES["small"].pixels)
    ring = torch.from_numpy(np.hypot(x, y)).flatten().div(0.7).long()
    distances = F.one_hot(ring).float()  # (pixels, rings)
    of_bands = area_by_a_line(lambda images: images.mean(dim=(2, 3)))
    of_distances = area_by_a_line(lambda images: images.mean(dim=1).flatten(1) @ distances)
    print(f"bands {of_bands:.3f}, distances {of_distances:.3f}")
    assert of_bands < WORKLOAD.chance + WORKLOAD.margin < of_distances < 0.9


def area_by_a_line(features: Callable[[Tensor], Tensor]) -> float:
    """The AUC in the evaluation of a line that least squares put through the training."""
    small = SIZES["small"]
    images, classes = make_images(small.training_rows, small.pixels, TRAINING_SEED)
    line = torch.linalg.lstsq(F.pad(features(images), (0, 1), value=1.0), classes[:, None].float())
    images, classes = make_images(small.evaluation_rows, small.pixels, EVALUATION_SEED)
    scores = F.pad(features(images), (0, 1), value=1.0) @ line.solution
    return area_under_curve(scores[:, 0], classes).item()


def test_the_images_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for threads in (1, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        made.append(make_images(200, 16, seed=2))
    for one, other in zip(*made, strict=True):
        assert torch.equal(one, other)
    assert len(torch.unique(made[0][0].sum(dim=(1, 2, 3)))) == 200  # no piece is another's copy


def test_what_fails_in_a_thread_is_raised() -> None:
    def fail(piece: slice) -> None:
        raise OSError(piece.start)

    with pytest.raises(OSError, match="0"):
        data.in_pieces(100, fail)


@pytest.mark.parametrize("values", [2, 5, 1000])
def test_the_area_under_the_curve_is_that_of_all_pairs(values: int) -> None:
    """Few values: many ties."""
    generator = torch.Generator().manual_seed(values)
    scores = torch.randint(0, values, (150,), generator=generator) / values
    labels = torch.randint(0, 2, (150,), generator=generator)
    slow = naive.area_under_curve(scores.tolist(), labels.tolist())
    assert area_under_curve(scores, labels).item() == pytest.approx(slow, abs=1e-12)


def test_the_area_is_known_where_all_are_told_apart_or_none_or_a_class_is_absent() -> None:
    labels = torch.tensor([0, 1, 0, 1])
    assert area_under_curve(torch.tensor([0.1, 0.8, 0.2, 0.7]), labels).item() == 1
    assert area_under_curve(torch.tensor([0.9, 0.2, 0.8, 0.3]), labels).item() == 0
    assert area_under_curve(torch.ones(4), labels).item() == 0.5
    assert area_under_curve(torch.ones(4), torch.zeros(4)).isnan().item()


def test_the_score_of_an_image_is_the_mean_probability_of_its_scales() -> None:
    outputs = torch.randn(40, 3, 2, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(40) % 2
    scores = torch.stack([scale.softmax(dim=1)[:, 1] for scale in outputs.unbind(1)]).mean(0)
    assert auc(outputs, labels).item() == pytest.approx(area_under_curve(scores, labels).item())
    assert auc(outputs[:, 0], labels).item() == auc(outputs[:, :1], labels).item()


def test_each_scale_has_a_network_on_means_of_pixels() -> None:
    seed_everything(1)
    networks = [ResNet18(width=4).eval() for _ in range(3)]
    images, targets = torch.randn(5, 3, 32, 32), torch.tensor([0, 1, 1, 0, 1])
    outputs = ManyScales(networks)(images)
    seen = [F.avg_pool2d(images, size) for size in (1, 2, 4)]
    assert torch.equal(seen[0], images)
    alone = [network(each) for network, each in zip(networks, seen, strict=True)]
    assert torch.equal(outputs, torch.stack(alone, dim=1))
    losses = [F.cross_entropy(each, targets).item() for each in alone]
    assert loss_of_scales(outputs, targets).item() == pytest.approx(sum(losses))


def test_at_full_size_the_model_is_the_original_and_at_three_scales_three_with_dropout() -> None:
    with torch.device("meta"):
        plain, scaled = (make_model(SIZES[name]) for name in ("full", "full-scales"))
    assert type(plain) is ResNet18
    assert not any(isinstance(module, nn.Dropout) for module in plain.modules())
    assert [type(module) for module in scaled.modules()].count(nn.Dropout) == 3
    shapes = [[each.shape for each in model.parameters()] for model in (plain, scaled)]
    assert shapes[1] == 3 * shapes[0]


def losses_of(task: Task) -> list[float]:
    device = training_device()
    model = task.model.to(device)
    optimizer = task.optimizer(model.parameters())
    assert isinstance(optimizer, Optimizer)
    losses: list[float] = []
    while True:
        for batch in task.make_loader():
            optimizer.zero_grad()
            loss = task.compute_loss(model, [tensor.to(device) for tensor in batch])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == STEPS:
                return losses


@pytest.mark.long
def test_the_plain_script_and_the_task_have_the_same_losses() -> None:
    dataset = naive.LensDataset(image_folder(SIZES["small"].training_rows, 48, TRAINING_SEED))
    torch.manual_seed(5)
    of_script = naive.train(naive.LensFinder().to(naive.device), dataset, epochs=2)[:STEPS]
    seed_everything(5)
    of_task = losses_of(factory("small")())
    assert of_script == pytest.approx(of_task, rel=1e-5)


@pytest.mark.long
def test_the_plain_script_beats_chance_by_the_margin() -> None:
    command = [sys.executable, "-m", "hasten.gallery.lensing.naive"]
    command += ["--members", "1", "--samples", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    print(done.stdout)
    *epochs, last = done.stdout.splitlines()
    assert len(epochs) == 2
    found = re.fullmatch(r"auc: (\d\.\d+)", last)
    assert found
    assert float(found[1]) > WORKLOAD.chance + WORKLOAD.margin


def test_members_and_dropout_samples_are_averaged() -> None:
    dataset = naive.LensDataset(image_folder(12, 48, EVALUATION_SEED))
    torch.manual_seed(1)
    members = [naive.LensFinder(), naive.LensFinder()]
    few = torch.tensor([naive.predict(members, dataset, samples=2) for _ in range(2)])
    assert ((few > 0) & (few < 1)).all()
    assert not torch.equal(few[0], few[1])  # dropout is on
    assert not any(module.training for module in members[0].nets[0].blocks.modules())
    torch.manual_seed(2)
    alone = [torch.tensor(naive.predict([each], dataset, samples=2)) for each in members]
    torch.manual_seed(2)
    together = torch.tensor(naive.predict(members, dataset, samples=2))
    torch.testing.assert_close(together, torch.stack(alone).mean(0))


def line_about(size: Size) -> str:
    scales = f" at {size.scales} scales" if size.scales > 1 else ""
    kind = "files" if size.files else "images"
    images = f"{size.training_rows:,} {kind} of 3 x {size.pixels} x {size.pixels}{scales}"
    networks = f"{size.scales} ResNet-18" if size.scales > 1 else "ResNet-18"
    return f"{images}, {networks} of width {size.width}, batch {size.batch_size}"


def test_what_is_told_of_the_sizes_is_so() -> None:
    told = {size.name: size.shape for size in WORKLOAD.sizes}
    assert told == {name: line_about(size) for name, size in SIZES.items()}
    assert WORKLOAD.name == "lensing"
    (metric,) = factory("small")().metrics.items()
    assert metric[0] == WORKLOAD.metric
    assert metric[1].higher_is_better is WORKLOAD.higher_is_better
