"""The battery workload: a cell that behaves like one, its windows, and the script's training."""

import re
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from hasten.data.loaders.batched import cannot_batch
from hasten.data.loaders.resident import cannot_reside
from hasten.gallery.battery import naive
from hasten.gallery.battery.about import WORKLOAD
from hasten.gallery.battery.cell import Cells, discharge
from hasten.gallery.battery.data import (
    AMBIENTS,
    LIMITS,
    TRAINING_SEED,
    Recordings,
    make_recordings,
    make_windows,
)
from hasten.gallery.battery.model import ChargeNetwork, Layer, rmse
from hasten.gallery.battery.task import SIZES, factory
from hasten.records.plan import NAIVE, Plan
from hasten.runtime.run import Run
from hasten.task.load import build_task, load_factory
from hasten.task.pipeline import Pipeline
from hasten.task.task import Task
from hasten.task.traits import read_traits

STEPS = 50
LAYER_OF = {"small": "lstm", "small-gru": "gru"}


@pytest.fixture(scope="module")
def recordings() -> Recordings:
    return make_recordings(4, 2000, seed=7)


@pytest.fixture(scope="module")
def task() -> Task:
    return factory("small")()


def of_one(
    seconds: int, amperes: float, *, start: float = 0.6, ambient: float = 25.0
) -> list[np.ndarray]:
    """Voltage, temperature and charge of a typical cell under a constant current."""
    cell = Cells(capacity_ah=np.array([3.0]), resistance=np.array([1.0]))
    current = np.full((1, seconds), amperes)
    return [each[0] for each in discharge(cell, current, np.array([start]), np.array([ambient]))]


def test_the_same_seed_makes_the_same_recordings(recordings: Recordings) -> None:
    again = make_recordings(4, 2000, seed=7)
    assert all(np.array_equal(a, b) for a, b in values_of(recordings, again))


def test_another_seed_makes_other_recordings(recordings: Recordings) -> None:
    other = make_recordings(4, 2000, seed=8)
    assert not any(np.array_equal(a, b) for a, b in values_of(recordings, other))


def values_of(one: Recordings, other: Recordings) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(zip(vars(one).values(), vars(other).values(), strict=True))


@pytest.mark.parametrize("size", ["small", "full"])
def test_recordings_look_like_those_of_a_cell_in_a_car(size: str) -> None:
    made = make_recordings(SIZES[size].cells, SIZES[size].seconds, TRAINING_SEED)
    assert made.charge.shape == (SIZES[size].cells * len(AMBIENTS), SIZES[size].seconds)
    assert 0 < made.charge.min() < 0.15
    assert 0.9 < made.charge.max() < 1
    assert np.all(made.charge[:, 0] - made.charge[:, -1] > 0.45)
    assert made.voltage.min() > 2.5
    assert made.voltage.max() < 4.3
    assert 0.03 < np.mean(made.current < -0.1) < 0.3  # braking gives some back
    assert np.mean(abs(made.current) < 0.3) > 0.05  # it also stands
    assert made.temperature.min() > -5
    assert made.temperature.max() < 55
    assert np.all(made.temperature[:, -1] > made.temperature[:, 0])


def test_the_charge_is_what_was_taken(recordings: Recordings) -> None:
    """Up to the sensor's own error."""
    taken_ah = recordings.current.astype(np.float64).sum(axis=1) / 3600
    capacity = taken_ah / (recordings.charge[:, 0] - recordings.charge[:, -1])
    of_each_cell = capacity.reshape(-1, len(AMBIENTS))
    assert np.all(of_each_cell.std(axis=1) < 0.03)
    assert np.all((of_each_cell > 2.5) & (of_each_cell < 3.1))
    assert of_each_cell.mean(axis=1).std() > 0.03  # the cells differ


def test_at_rest_a_cell_shows_its_open_circuit_voltage() -> None:
    charges = np.linspace(0.05, 0.95, 19)
    shown = [of_one(2, 0.0, start=charge)[0][-1] for charge in charges]
    assert np.all(np.diff(shown) > 0)
    assert of_one(2, 0.0, start=0.5)[0][-1] == pytest.approx(3.68)


def test_the_voltage_drops_at_once_and_then_lags_behind_the_current() -> None:
    resting, loaded = of_one(300, 0.0)[0], of_one(300, 3.0)[0]
    drop = resting - loaded
    assert 0.05 < drop[0] < 0.09
    assert drop[60] > drop[0] + 0.025  # the RC pair; the falling charge itself is 10 mV by now
    charging = of_one(2, -3.0)[0]
    assert charging[0] > resting[0]


def test_in_the_cold_a_cell_resists_more_and_heats_itself_more() -> None:
    warm, cold = of_one(600, 3.0, ambient=25.0), of_one(600, 3.0, ambient=0.0)
    assert cold[0][0] < warm[0][0] - 0.04
    heated = [temperature[-1] - temperature[0] for _, temperature, _ in (warm, cold)]
    assert heated[1] > 1.3 * heated[0] > 1.0
    assert of_one(600, 0.0)[1] == pytest.approx(25.0)


def test_heat_goes_off_until_it_balances_what_comes() -> None:
    voltage, temperature, charge = of_one(5000, 1.5, start=0.9)
    resting = of_one(1, 0.0, start=charge[-1])[0][0]
    heat = 1.5 * (resting - voltage[-1])
    assert temperature[-1] - 25.0 == pytest.approx(heat / 0.08, rel=0.05)


def test_windows_are_rows_of_the_recordings(recordings: Recordings) -> None:
    windows, charge = make_windows(recordings, length=50, stride=30)
    per_drive = (2000 - 50) // 30 + 1
    assert windows.shape == (16 * per_drive, 50, 3)
    drive, place = 5, 11
    row, seconds = drive * per_drive + place, slice(place * 30, place * 30 + 50)
    sensors = (recordings.current, recordings.voltage, recordings.temperature)
    for channel, (series, (low, high)) in enumerate(zip(sensors, LIMITS, strict=True)):
        physical = low + (windows[row, :, channel].numpy() + 1) / 2 * (high - low)
        assert physical == pytest.approx(series[drive, seconds], abs=1e-5)
    assert charge[row].item() == recordings.charge[drive, seconds.stop - 1]
    assert charge.shape == (len(windows), 1)


def test_the_script_makes_the_same_windows() -> None:
    made = make_recordings(1, naive.SECONDS, seed=3)
    expected = make_windows(made, naive.WINDOW, naive.STRIDE)
    rows = next(iter(DataLoader(naive.WindowDataset(made), batch_size=10_000)))
    assert all(torch.equal(a, b) for a, b in zip(expected, rows, strict=True))


@pytest.mark.parametrize("size", ["small", "full"])
def test_the_windows_of_a_size_are_as_many_as_it_says(size: str) -> None:
    shape = SIZES[size]
    windows, charge = make_windows(
        make_recordings(1, shape.seconds, seed=3), shape.length, shape.stride
    )
    assert len(windows) == len(charge) == len(AMBIENTS) * shape.windows
    assert shape.training_rows == shape.cells * len(windows)
    loader = DataLoader(TensorDataset(windows, charge))
    assert cannot_batch(loader) is cannot_reside(loader) is None


def test_the_script_has_the_small_shapes() -> None:
    small = SIZES["small"]
    assert small.seconds == naive.SECONDS
    assert (small.length, small.stride) == (naive.WINDOW, naive.STRIDE)
    assert (small.hidden, small.batch_size) == (naive.HIDDEN, naive.BATCH_SIZE)


@pytest.mark.parametrize("layer", LAYER_OF.values())
def test_without_a_state_the_network_begins_at_zeros(layer: Layer) -> None:
    torch.manual_seed(1)
    model = ChargeNetwork(hidden=8, layer=layer)
    windows = torch.randn(5, 12, 3)
    assert torch.equal(model(windows), model(windows, model.zero_state(5)))


def losses_of(size: str, plan: Plan = NAIVE, steps: int = STEPS) -> tuple[list[float], Run]:
    name = f"gallery:battery@{size}"
    run = Run(Pipeline.from_task(build_task(load_factory(name), name, seed=5)), plan)
    return [float(run.step(batch)) for batch in islice(run.endless(), steps)], run


@pytest.mark.parametrize("size", LAYER_OF)
def test_the_plain_script_and_the_task_have_the_same_losses(size: str) -> None:
    torch.manual_seed(5)
    small = SIZES["small"]
    dataset = naive.WindowDataset(make_recordings(small.cells, small.seconds, TRAINING_SEED))
    losses = naive.train(naive.ChargeModel(LAYER_OF[size]).to(naive.device), dataset, epochs=1)
    assert losses[:STEPS] == losses_of(size)[0]


@pytest.mark.parametrize("size", LAYER_OF)
def test_the_zeros_of_each_batch_are_something_to_do_without(size: str) -> None:
    plain, _ = losses_of(size, steps=10)
    for state in ("none", "kept"):
        losses, run = losses_of(size, Plan(parts={"recurrent_state": {"state": state}}), steps=10)
        assert [each.outcome for each in run.applied] == ["done"]
        assert losses == plain


def test_the_traits_are_those_of_a_recurrent_network_over_tensors(task: Task) -> None:
    traits = read_traits(Pipeline.from_task(task))
    assert traits.model.resets_state
    assert "recurrent" in traits.model.families
    assert traits.data.not_in_memory() is None


def test_the_plain_script_and_the_task_have_the_same_metric() -> None:
    made = make_recordings(1, naive.SECONDS, seed=3)
    torch.manual_seed(5)
    model = naive.ChargeModel("lstm")
    windows, charge = make_windows(made, naive.WINDOW, naive.STRIDE)
    with torch.no_grad():
        expected = rmse(model(windows, None), charge).item()
    found = naive.evaluate(model.to(naive.device), naive.WindowDataset(made))
    assert found == pytest.approx(expected, rel=1e-5)


def charges_of(data: object) -> Tensor:
    assert isinstance(data, TensorDataset)
    return data.tensors[1]


def test_the_chance_level_is_what_the_mean_of_the_training_reaches(task: Task) -> None:
    truth = charges_of(task.evaluation_data)
    chance = rmse(charges_of(task.data).mean().expand_as(truth), truth).item()
    print(f"the mean charge reaches {chance:.4f}")
    assert chance == pytest.approx(WORKLOAD.chance, abs=0.002)


def test_a_straight_line_through_a_window_does_not_reach_the_margin(task: Task) -> None:
    training, evaluation = (with_one(data) for data in (task.data, task.evaluation_data))
    line = torch.linalg.lstsq(training, charges_of(task.data)).solution
    error = rmse(evaluation @ line, charges_of(task.evaluation_data)).item()
    print(f"a straight line reaches {error:.4f}")
    assert WORKLOAD.chance - WORKLOAD.margin < error < WORKLOAD.chance


def with_one(data: object) -> Tensor:
    """All numbers of each window, and a 1."""
    assert isinstance(data, TensorDataset)
    return nn.functional.pad(data.tensors[0].flatten(1), (0, 1), value=1.0)


@pytest.mark.long
def test_the_plain_script_learns_far_more_than_chance() -> None:
    command = [sys.executable, "-m", "hasten.gallery.battery.naive"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    *_, best, last = done.stdout.splitlines()
    print(last)
    assert re.fullmatch(r"best loss 0\.\d{6}", best)
    metric, value = last.split(": ")
    assert metric == WORKLOAD.metric
    assert float(value) <= WORKLOAD.chance - WORKLOAD.margin


def test_what_the_gallery_says_is_what_the_task_is(task: Task) -> None:
    assert WORKLOAD.name == "battery"
    (name,) = task.metrics
    assert WORKLOAD.metric == name
    assert WORKLOAD.higher_is_better is task.metrics[name].higher_is_better
    assert isinstance(task.model.recurrent, nn.LSTM)
    assert {each.name: each.shape for each in WORKLOAD.sizes} == {
        name: f"{size.training_rows:,} windows of {size.length} x 3, 2-layer {size.layer.upper()}, "
        f"hidden {size.hidden}, batch {size.batch_size}"
        for name, size in SIZES.items()
    }
