"""Fixes that are only shown, since something else is needed or not known."""

from pathlib import Path

import pytest
from projects import put

from hasten.records.scan import CodeFinding
from hasten.scan.analysis import analyse
from hasten.scan.fix import fix
from hasten.scan.link import Tree
from hasten.scan.looking import Rules
from hasten.scan.registry import all_rules
from hasten.scan.scan import scan
from hasten.scan.settings import Project

RULES = {rule.code: rule for rule in all_rules()}


def findings(code: str, **files: str) -> list[CodeFinding]:
    rule = RULES[code]
    analyses = {f"{name}.py": analyse(text, Rules.of([rule])) for name, text in files.items()}
    return Tree(analyses).findings({code: rule})


def only(code: str, **files: str) -> CodeFinding:
    (found,) = findings(code, **files)
    return found


def safety(found: CodeFinding) -> str:
    return found.fix.safety if found.fix is not None else ""


LOADER = """\
import torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __getitem__(self, index):
        return read(self.paths[index]){prepared}

def train(model, optimizer, rows, workers, device):
    loader = DataLoader(Rows(rows, 1), num_workers=workers, persistent_workers=workers > 0)
    for x in loader:
        model(x.to(device{how})).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("prepared", "how", "expected"),
    [
        (".float()", ", non_blocking=True", "unsafe"),
        (".float()", ", non_blocking=options.fast", "unsafe"),
        (".float()", ", non_blocking=False", "display"),
        (".float()", "", "display"),
        (".float().to('cuda')", ", non_blocking=True", "display"),
    ],
)
def test_memory_is_pinned_where_copies_do_not_wait(prepared: str, how: str, expected: str) -> None:
    found = only("HST103", loader=LOADER.format(prepared=prepared, how=how))
    assert safety(found) == expected
    says_so = "non_blocking=True" in found.message
    assert says_so == (", non_blocking=True" not in how and "options" not in how)


FUSED = """\
import torch
{before}
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler()
"""


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("net.cuda()", "unsafe"),
        ("net.to('cuda:0')", "unsafe"),
        ("if __name__ == '__main__':\n    net.cuda()", "unsafe"),
        ("device = torch.device('cuda')\nnet.to(device)", "unsafe"),
        ("", "display"),
        ("if torch.cuda.is_available():\n    net.cuda()", "display"),
        ("net.to('cuda' if torch.cuda.is_available() else 'cpu')", "display"),
        ("def main(device='cuda'):\n    net.to(device)", "display"),
        ("net.to(args.device)", "display"),
    ],
)
def test_an_optimizer_is_fused_where_the_device_is_sure(before: str, expected: str) -> None:
    assert safety(only("HST402", train=FUSED.format(before=before))) == expected


VOLUMES = """\
import torch

def {name}_all(model, loader):
    for volume in loader:
        {name}(model, volume)

def {name}(model, volume):
    torch.cuda.empty_cache()
    found = torch.zeros(volume.shape, device="cuda")
    for corner in corners_of(volume):
        found[corner] += model(volume[corner])
    return found
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [("predict", "display"), ("predict_sliding_window", "display"), ("denoise", "unsafe")],
)
def test_between_whole_volumes_memory_is_not_kept_unasked(name: str, expected: str) -> None:
    assert safety(only("HST301", volumes=VOLUMES.format(name=name))) == expected


PREDICT = """\
import torch

class Trainer:
    def predict(self, loader):
        self.model.eval()
        return [self.model(x).cpu() for x in loader]
"""
FLOW = """\
import torch
{imported}

class Flow(torch.nn.Module):
    def forward(self, x):
        return self.moved(x)

    def moved(self, x):
        {body}
"""


@pytest.mark.parametrize(
    ("imported", "body", "expected"),
    [
        ("", "return x - torch.autograd.grad(self.energy(x), x)[0]", "display"),
        ("from torch.autograd import grad", "return x - grad(self.energy(x), x)[0]", "display"),
        ("from mine import grad", "return grad(self.energy(x), x)[0]", "unsafe"),
        ("", "with torch.enable_grad(): return torch.autograd.grad(self.energy(x), x)", "unsafe"),
        ("", "return self.energy(x)", "unsafe"),
    ],
)
def test_gradients_are_not_stopped_where_a_model_takes_them(
    imported: str, body: str, expected: str
) -> None:
    found = findings("HST406", train=PREDICT, model=FLOW.format(imported=imported, body=body))
    assert {safety(each) for each in found if each.path == "train.py"} == {expected}
    (told,) = {each.fix.about for each in found if each.fix is not None}
    assert ("`Flow.forward` (model.py:5)" in told) == (expected == "display")


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("train.py", ["HST402", "HST406"]),
        ("latest/train.py", ["HST402", "HST406"]),
        ("test_net.py", ["HST406"]),
        ("package/tests/train.py", []),
        ("package/testing/cases.py", []),
        ("conftest.py", []),
    ],
)
def test_tests_need_not_be_fast(name: str, codes: list[str], tmp_path: Path) -> None:
    text = FUSED.format(before="net.cuda()") + PREDICT.replace("import torch\n", "")
    put(tmp_path / name, text)
    report = scan([tmp_path], Project(tmp_path))
    assert [each for each in report.summary.codes if each in ("HST402", "HST406")] == codes
    made = fix([tmp_path], Project(tmp_path), unsafe=True, write=False).fixed
    assert sorted({each.code for each in made} & {"HST402", "HST406"}) == codes
