"""Fixes that are only shown, since something else is needed or not known."""

import pytest

from hasten.records.scan import CodeFinding
from hasten.scan.analysis import analyse
from hasten.scan.link import Tree
from hasten.scan.looking import Rules
from hasten.scan.registry import all_rules

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
