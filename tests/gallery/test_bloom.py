"""The Bloom filter workload: its data, its encoders, and that the plain script trains the same."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from hasten.data.encoders import NGrams
from hasten.gallery.bloom import naive
from hasten.gallery.bloom.about import WORKLOAD
from hasten.gallery.bloom.data import (
    EVALUATION_SEED,
    FILTER_BITS,
    HASHES,
    LABELS,
    TRAINING_SEED,
    Persons,
    hash_positions,
    make_filter,
    make_persons,
    write_table,
)
from hasten.gallery.bloom.model import dice
from hasten.gallery.bloom.task import SIZES, factory, make_dataset
from hasten.task.seed import seed_everything
from hasten.task.task import Task
from plain_loop import train_task_plainly

STEPS = 50
SCRIPT = "hasten.gallery.bloom.naive"


@pytest.fixture(scope="module")
def persons() -> Persons:
    return make_persons(300, seed=7)


@pytest.fixture(scope="module")
def task() -> Task:
    return make_small_task(seed=0)


def make_small_task(seed: int) -> Task:
    seed_everything(seed)
    return factory("small")()


def tensors_of(data: object) -> tuple[Tensor, ...]:
    assert isinstance(data, TensorDataset)
    return data.tensors


def best_constant_guess(training_labels: Tensor, labels: Tensor) -> float:
    """Chance: the same most frequent 2-grams for everybody, as many as suit the test data best."""
    frequent = training_labels.mean(0).argsort(descending=True)
    scores = []
    for count in range(1, 101):
        guess = torch.full_like(labels, -1.0)
        guess[:, frequent[:count]] = 1.0
        scores.append(dice(guess, labels).item())
    return max(scores)


def test_the_same_seed_makes_the_same_persons(persons: Persons) -> None:
    assert make_persons(300, seed=7) == persons


def test_another_seed_makes_other_persons(persons: Persons) -> None:
    other = make_persons(300, seed=8)
    assert other.given_name != persons.given_name
    assert other.bits != persons.bits


def test_training_and_evaluation_share_no_person() -> None:
    training = make_persons(SIZES["small"].training_rows, TRAINING_SEED)
    evaluation = make_persons(SIZES["small"].evaluation_rows, EVALUATION_SEED)
    assert not set(training.bits) & set(evaluation.bits)


def test_persons_look_like_a_register() -> None:
    persons = make_persons(4096, TRAINING_SEED)
    for name in persons.given_name + persons.surname:
        assert re.fullmatch("[a-z]{2,}", name)
    for birthday in persons.birthday:
        assert re.fullmatch(r"[0-3]\d/[01]\d/(19|20)\d\d", birthday)
    assert len(set(persons.given_name)) > 1000
    assert len(set(persons.surname)) > 1000


def test_a_filter_holds_the_bits_of_its_two_grams_and_no_others() -> None:
    two_grams = ["_a", "an", "nn", "na", "a_", "_l", "le", "ee", "e_"]
    two_grams += ["01", "1/", "/0", "02", "2/", "/1", "19", "99", "90"]
    expected = {position for each in two_grams for position in hash_positions(each)}
    bits = make_filter("anna", "lee", "01/02/1990")
    assert len(bits) == FILTER_BITS
    assert {position for position, bit in enumerate(bits) if bit == "1"} == expected


def test_a_two_gram_sets_as_many_bits_as_there_are_hashes() -> None:
    for two_gram in naive.ALL_TWO_GRAMS:
        assert len(set(hash_positions(two_gram))) == HASHES


def test_labels_are_the_letter_two_grams_inside_each_name() -> None:
    labels = NGrams().encode(["anna", "zoe"], ["lee", "az"])
    found = [[naive.ALL_TWO_GRAMS[i] for i in row.nonzero().flatten().tolist()] for row in labels]
    # Not "al" or "ea", which cross from one name to the next, and no padding.
    assert found == [["an", "ee", "le", "na", "nn"], ["az", "oe", "zo"]]
    assert labels.shape == (2, LABELS)


def test_the_table_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    made = make_persons(20, seed=7)
    missing = Persons(given_name=["nan"], surname=["null"], birthday=["01/01/2000"], bits=["01"])
    for persons in (made, missing):
        write_table(persons, tmp_path / "persons.csv")
        table = naive.read_table(tmp_path / "persons.csv")
        assert {name: table[name].tolist() for name in vars(persons)} == vars(persons)


def test_the_task_has_the_data_of_the_script() -> None:
    slow = DataLoader(naive.load_dataset(300, seed=7), batch_size=300)
    for ours, theirs in zip(make_dataset(300, seed=7).tensors, next(iter(slow)), strict=True):
        assert torch.equal(ours, theirs)
        assert ours.dtype == theirs.dtype == torch.float32


def test_dice_is_two_thirds_where_one_of_two_guesses_is_the_only_true_two_gram() -> None:
    targets = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    outputs = torch.tensor([[5.0, 5.0, -5.0], [-5.0, 5.0, 5.0]])
    assert dice(outputs, targets).item() == pytest.approx((2 / 3 + 1) / 2)


def test_the_task_has_the_rows_of_its_size(task: Task) -> None:
    bits, labels = tensors_of(task.data)
    assert bits.shape == (4096, FILTER_BITS)
    assert labels.shape == (4096, LABELS)
    assert len(tensors_of(task.evaluation_data)[0]) == 512


def test_the_plain_script_and_the_task_have_the_same_losses() -> None:
    torch.manual_seed(5)
    dataset = naive.load_dataset(SIZES["small"].training_rows, TRAINING_SEED)
    losses = naive.train(naive.make_model().to(naive.device), dataset, epochs=1)
    assert losses[:STEPS] == train_task_plainly(make_small_task(seed=5), STEPS)


def test_the_plain_script_and_the_task_have_the_same_metric() -> None:
    dataset = naive.load_dataset(40, EVALUATION_SEED)
    torch.manual_seed(5)
    model = naive.make_model()
    bits, labels = next(iter(DataLoader(dataset, batch_size=40)))
    with torch.no_grad():
        expected = dice(model.eval()(bits), labels).item()
    assert 0.01 < expected < 0.1  # about half of all 2-grams are guessed before it has learnt
    assert naive.evaluate(model.to(naive.device), dataset) == pytest.approx(expected, abs=1e-6)


def test_the_chance_level_is_what_the_best_constant_guess_reaches(task: Task) -> None:
    chance = best_constant_guess(tensors_of(task.data)[1], tensors_of(task.evaluation_data)[1])
    print(f"the best constant guess reaches {chance:.4f}")
    assert chance == pytest.approx(WORKLOAD.chance, abs=0.005)


def test_least_squares_read_nearly_all_two_grams(task: Task) -> None:
    """As its page says: the filters hide little from who has persons with theirs."""
    bits, labels = tensors_of(task.data)
    held, wanted = bits.T @ bits + 10 * torch.eye(bits.shape[1]), bits.T @ labels
    bits, labels = tensors_of(task.evaluation_data)
    guesses = bits @ torch.linalg.solve(held, wanted)
    assert dice(guesses - 0.5, labels) > 0.95


@pytest.mark.long
def test_the_plain_script_learns_far_more_than_chance() -> None:
    done = run_script()
    assert done.returncode == 0, done.stderr
    *epochs, last = done.stdout.splitlines()
    assert all(re.fullmatch(r"epoch \d: loss 0\.\d{4}", line) for line in epochs)
    metric, value = last.split(": ")
    print(last)
    assert metric == WORKLOAD.metric
    assert float(value) >= WORKLOAD.chance + WORKLOAD.margin


def test_without_pandas_the_plain_script_says_what_to_install() -> None:
    done = run_script(before="sys.modules['pandas'] = None")
    assert done.returncode == 1
    assert done.stderr.startswith("This script reads its table with pandas")
    assert "pip install 'hasten[data]'" in done.stderr


def run_script(before: str = "") -> subprocess.CompletedProcess[str]:
    """Its main path, with its own defaults, in a process of its own."""
    code = f"import runpy, sys; {before}\nrunpy.run_module({SCRIPT!r}, run_name='__main__')"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def test_what_the_gallery_says_is_what_the_task_is(task: Task) -> None:
    assert WORKLOAD.name == "bloom"
    (name,) = task.metrics
    assert WORKLOAD.metric == name
    assert WORKLOAD.higher_is_better is task.metrics[name].higher_is_better
    layers = [each for each in task.model.modules() if isinstance(each, nn.Linear)]
    widths = "-".join(str(each.in_features) for each in layers) + f"-{layers[-1].out_features}"
    assert {each.name: each.shape for each in WORKLOAD.sizes} == {
        name: f"{size.training_rows:,} rows, MLP {widths}, batch {task.batch_size}"
        for name, size in SIZES.items()
    }
