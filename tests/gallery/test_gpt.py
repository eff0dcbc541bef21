"""The language model: its text, its tokens, and that the plain script trains the same."""

import hashlib
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from hasten.errors import HastenError
from hasten.gallery.gpt import naive
from hasten.gallery.gpt.about import WORKLOAD
from hasten.gallery.gpt.data import EVALUATION_SEED, TRAINING_SEED, draw_starts, make_windows
from hasten.gallery.gpt.library import END_OF_FILE, Library, for_evaluation, read_library
from hasten.gallery.gpt.task import SIZES, factory
from hasten.gallery.gpt.vocabulary import BYTES, Vocabulary, learn_vocabulary
from hasten.gallery.transformer import Block
from hasten.runtime.evaluate import evaluate
from hasten.task.seed import random_state, seed_everything
from hasten.task.task import Task
from plain_loop import train_task_plainly

STEPS = 50
FULL = SIZES["full"]


@pytest.fixture(scope="module")
def library() -> Library:
    return read_library()


@pytest.fixture(scope="module")
def vocabulary(library: Library) -> Vocabulary:
    return learn_vocabulary(library.training, FULL.vocabulary)


def make_small_task(seed: int, *, fused: bool = True) -> Task:
    seed_everything(seed)
    task = factory("small")()
    for module in task.model.modules():
        if isinstance(module, Block):
            module.fused = fused
    return task


def train_script(library: Library, seed: int) -> list[float]:
    torch.manual_seed(seed)
    model = naive.GPT().to(naive.device)
    dataset = naive.TextDataset(library.training, naive.TRAINING_ROWS, TRAINING_SEED)
    return naive.train(model, dataset, STEPS)


def write_library(folder: Path, **sources: bytes) -> None:
    """Names have a dot where the path has a slash; big enough to be taken for a library."""
    sources = {"ast": b"#" * 2_000_000, **sources}
    for name, source in sources.items():
        path = folder / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source)


def test_the_text_is_the_same_in_another_process(library: Library) -> None:
    code = (
        "import hashlib; from hasten.gallery.gpt.library import read_library as read; "
        "print(hashlib.sha256(read().training + read().evaluation).hexdigest())"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    text = library.training + library.evaluation
    assert done.stdout.strip() == hashlib.sha256(text).hexdigest()


def test_the_text_is_the_modules_of_python_and_nothing_that_lies_beside_them(
    tmp_path: Path,
) -> None:
    write_library(
        tmp_path,
        **{"json.decoder": b"decoder", "json.__init__": b"json", "zipfile": b"zipfile"},
        **{"site-packages.torch": b"not ours", "sitecustomize": b"of this machine"},
        **{"idlelib.run": b"shipped apart", "json.tests.test_all": b"a test", "test.json": b"a"},
    )
    (tmp_path / "json" / "data.txt").write_text("no source")
    found = read_library(tmp_path)
    files = [*found.training.split(END_OF_FILE), *found.evaluation.split(END_OF_FILE)]
    assert sorted({file for file in files if not file.startswith(b"#")}) == [
        b"",
        b"decoder",
        b"json",
        b"zipfile",
    ]


def test_a_file_is_either_trained_or_evaluated_on(tmp_path: Path) -> None:
    names = sorted(sys.stdlib_module_names)[:100]
    write_library(tmp_path, **{name: name.encode() for name in names if name != "ast"})
    found = read_library(tmp_path)
    training = found.training.decode().split("\0")
    evaluation = [each for each in found.evaluation.decode().split("\0") if each]
    assert len(evaluation) > 3
    assert all(for_evaluation(f"{name}.py") for name in evaluation)
    assert not set(training) & set(evaluation)


@pytest.mark.parametrize("name", ["python311.zip", "stripped"])
def test_a_python_without_sources_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "stripped").mkdir()
    (tmp_path / "stripped" / "ast.py").write_text("pass\n")
    with pytest.raises(HastenError) as raised:
        read_library(tmp_path / name)
    assert repr(str(tmp_path / name)) in raised.value.what
    assert "sources" in raised.value.what
    assert raised.value.fix.startswith("Use a Python that has its .py files")


def test_pieces_that_are_frequent_have_numbers_and_others_are_spelt() -> None:
    vocabulary = learn_vocabulary(b"def f(x):\n    def g(x): return x\n", BYTES + 2)
    assert len(vocabulary) == BYTES + 2
    tokens = vocabulary.encode(b"def f(y): def").tolist()
    # "(" and "y" are bytes, "):" was seen twice and " def" only once.
    assert [vocabulary.decode([token]) for token in tokens if token >= BYTES] == [b"):"]
    assert vocabulary.decode(tokens) == b"def f(y): def"


@pytest.mark.parametrize(
    "text",
    [b"", b" ", b"a", "naïve  ☃\r\n\tx = 1".encode(), bytes(range(256)) * 3, b"\n\n    if x:\n\n"],
)
def test_any_bytes_come_back_as_they_were(vocabulary: Vocabulary, text: bytes) -> None:
    assert vocabulary.decode(vocabulary.encode(text)) == text
    assert Vocabulary().decode(Vocabulary().encode(text)) == text


def test_the_whole_library_comes_back_as_it_was(library: Library, vocabulary: Vocabulary) -> None:
    for text in (library.training, library.evaluation):
        tokens = vocabulary.encode(text)
        assert vocabulary.decode(tokens) == text
        assert 0 <= tokens.min() <= tokens.max() < len(vocabulary) <= FULL.vocabulary
        assert len(text) / len(tokens) > 2.5


def test_random_bytes_come_back_as_they_were(vocabulary: Vocabulary) -> None:
    text = np.random.default_rng(1).bytes(100_000)
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_a_window_is_text_and_its_target_is_one_token_further(library: Library) -> None:
    tokens = Vocabulary().encode(library.evaluation)
    inputs, targets = make_windows(tokens, 16, 40, seed=3)
    assert inputs.shape == targets.shape == (16, 40)
    assert inputs.dtype == targets.dtype == torch.int64
    for row, start in enumerate(draw_starts(len(tokens), 16, 40, seed=3)):
        assert bytes(inputs[row].tolist()) == library.evaluation[start : start + 40]
        assert bytes(targets[row].tolist()) == library.evaluation[start + 1 : start + 41]


def test_windows_end_where_the_text_does() -> None:
    inputs, targets = make_windows(np.arange(11), 200, 10, seed=0)
    assert torch.equal(inputs, torch.arange(10).expand(200, 10))
    assert torch.equal(targets, torch.arange(1, 11).expand(200, 10))


def test_the_global_random_generators_are_left_untouched(library: Library) -> None:
    seed_everything(3)
    before = random_state()
    read_library()
    words = learn_vocabulary(library.evaluation, 1000)
    make_windows(words.encode(library.evaluation), 8, 16, seed=1)
    after = random_state()
    assert after["python"] == before["python"]
    assert str(after["numpy"]) == str(before["numpy"])
    assert torch.equal(after["torch"], before["torch"])


def test_chance_is_what_the_frequency_of_each_byte_tells(library: Library) -> None:
    training, evaluation = (
        np.bincount(np.frombuffer(text, np.uint8), minlength=256) + add
        for text, add in ((library.training, 1), (library.evaluation, 0))
    )
    guess = -np.log(training / training.sum())
    chance = float((evaluation * guess).sum() / evaluation.sum())
    print(f"chance {chance:.4f}")
    assert WORKLOAD.chance == pytest.approx(chance, abs=0.06)
    assert WORKLOAD.chance < math.log(256)


def test_the_sizes_are_described_as_they_are() -> None:
    for described in WORKLOAD.sizes:
        size = SIZES[described.name]
        data = f"{size.training_rows:,} x {size.length:,} tokens of {size.vocabulary:,}"
        model = f"GPT of {size.blocks} blocks of width {size.width}"
        assert described.shape == f"{data}, {model}, batch {size.batch_size}"


def test_the_plain_script_and_the_task_have_the_same_losses(library: Library) -> None:
    of_script = train_script(library, seed=5)
    by_hand = train_task_plainly(make_small_task(seed=5, fused=False), STEPS)
    fused = train_task_plainly(make_small_task(seed=5), STEPS)
    assert len(of_script) == STEPS
    # Attention is the only difference; a GPU may add up in another order each time.
    rounding = 0.0 if naive.device.type == "cpu" else 1e-4
    assert of_script == pytest.approx(by_hand, rel=rounding, abs=0.0)
    assert of_script == pytest.approx(fused, rel=max(rounding, 1e-5))


def test_the_script_and_the_task_evaluate_alike(library: Library) -> None:
    task = make_small_task(seed=2)
    torch.manual_seed(2)
    model = naive.GPT().to(naive.device)
    dataset = naive.TextDataset(library.evaluation, naive.EVALUATION_ROWS, EVALUATION_SEED)
    found = evaluate(task)["token_cross_entropy"]
    assert naive.evaluate(model, dataset) == pytest.approx(found, rel=1e-5)


def test_the_script_sees_the_windows_of_the_task(library: Library) -> None:
    data = make_small_task(seed=0).data
    assert isinstance(data, TensorDataset)
    dataset = naive.TextDataset(library.training, naive.TRAINING_ROWS, TRAINING_SEED)
    assert len(dataset) == len(data)
    for index in (0, 17, len(data) - 1):
        of_task: tuple[Tensor, ...] = data[index]
        assert all(torch.equal(a, b) for a, b in zip(dataset[index], of_task, strict=True))


def guess_by_the_byte_before(library: Library) -> float:
    """The cross-entropy of knowing how often each byte follows each, on the script's windows."""
    text = np.frombuffer(library.training, np.uint8)
    pairs = np.bincount(text[:-1] * np.int64(256) + text[1:], minlength=256**2) + 1
    follows = pairs.reshape(256, 256)
    shares = torch.from_numpy(follows / follows.sum(axis=1, keepdims=True))
    of_bytes = np.frombuffer(library.evaluation, np.uint8)
    before, after = make_windows(of_bytes, naive.EVALUATION_ROWS, naive.LENGTH, EVALUATION_SEED)
    return -shares[before, after].log().mean().item()


@pytest.mark.long
def test_the_script_learns_more_than_chance_and_than_pairs_of_bytes(library: Library) -> None:
    command = [sys.executable, "-m", "hasten.gallery.gpt.naive"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=280)
    last = done.stdout.splitlines()[-1]
    found = re.fullmatch(r"token_cross_entropy: (\d\.\d{4})", last)
    assert found is not None
    print(last)
    assert float(found[1]) < WORKLOAD.chance - WORKLOAD.margin
    assert float(found[1]) < guess_by_the_byte_before(library)
