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
