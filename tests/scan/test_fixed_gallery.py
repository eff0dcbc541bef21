"""The slow scripts of the gallery train alike once they are fixed."""

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from hasten import gallery
from hasten.scan.fix import fix

SCRIPTS = {path.parent.name: path for path in Path(gallery.__path__[0]).glob("*/naive.py")}
SEED = 3


def battery(script: Any) -> tuple[list[float], object]:
    dataset = script.WindowDataset(script.make_recordings(2, 1280, SEED))
    model = script.ChargeModel("gru").to(script.device)
    return script.train(model, dataset, 2), script.evaluate(model, dataset)


def bloom(script: Any) -> tuple[list[float], object]:
    dataset = script.load_dataset(256, SEED)
    model = script.make_model().to(script.device)
    return script.train(model, dataset, 2), script.evaluate(model, dataset)


def gpt(script: Any) -> tuple[list[float], object]:
    dataset = script.TextDataset(script.read_library().training, 64, SEED)
    model = script.GPT().to(script.device)
    return script.train(model, dataset, 20), script.evaluate(model, dataset)


def lensing(script: Any) -> tuple[list[float], object]:
    dataset = script.LensDataset(script.image_folder(64, script.PIXELS, SEED))
    model = script.LensFinder().to(script.device)
    return script.train(model, dataset, 2), script.predict([model], dataset, 2)


def microbiome(script: Any) -> tuple[list[float], object]:
    dataset = script.make_dataset(16, SEED)
    model = script.MicrobiomeModel().to(script.device)
    return script.train(model, dataset, 2), script.evaluate(model, dataset)


TRAININGS: dict[str, Callable[[Any], tuple[list[float], object]]] = {
    each.__name__: each for each in (battery, bloom, gpt, lensing, microbiome)
}


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(name: str, file: Path) -> tuple[list[float], object]:
    module = ModuleType(f"naive_{name}")
    sys.modules[module.__name__] = module  # a data set's class is looked up there
    try:
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), module.__dict__)
        torch.manual_seed(SEED)
        return TRAININGS[name](module)
    finally:
        del sys.modules[module.__name__]


def fixed(name: str, folder: Path, *, unsafe: bool) -> tuple[Path, int]:
    """A copy that is fixed, and how many fixes that took."""
    copy = folder / f"{name}.py"
    copy.write_bytes(SCRIPTS[name].read_bytes())
    report = fix([copy], unsafe=unsafe)
    assert not report.refused
    return copy, len(report.fixed)


def test_every_script_of_the_gallery_is_tried() -> None:
    assert set(TRAININGS) == set(SCRIPTS)


@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", TRAININGS)
def test_safe_fixes_change_no_bit(name: str, tmp_path: Path) -> None:
    copy, count = fixed(name, tmp_path, unsafe=False)
    if not count:
        pytest.skip("there is no safe fix for it")
    assert trained(name, copy) == trained(name, SCRIPTS[name])


@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", TRAININGS)
def test_unsafe_fixes_change_no_more_than_rounding(name: str, tmp_path: Path) -> None:
    copy, count = fixed(name, tmp_path, unsafe=True)
    assert count, "nothing was fixed"
    losses, _ = trained(name, copy)
    as_before, _ = trained(name, SCRIPTS[name])
    assert len(losses) == len(as_before)
    for loss, before in zip(losses, as_before, strict=True):
        assert math.isclose(loss, before, rel_tol=1e-3)
