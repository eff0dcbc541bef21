"""What a fix takes out goes with all that was there for it alone."""

import ast

import pytest
from test_fixes import PATH, findings, fixed

from hasten.scan.edits import remove_statement
from hasten.scan.idle_imports import without_idle_imports
from hasten.scan.lines import Lines
from hasten.scan.patch import patched, spans
from hasten.scan.registry import all_rules

RULES = {each.code: each for each in all_rules()}


def emptied(body: str, imports: str = "import torch\n") -> str:
    lines = "".join(f"        {line}\n" if line else "\n" for line in body.splitlines())
    return f"{imports}\ndef train(model, loader):\n    for x in loader:\n{lines}"


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("model(x)\nif x.is_cuda:\n    torch.cuda.empty_cache()", "model(x)"),
        (
            "model(x)\nif torch.cuda.is_available() and x.is_cuda:\n    torch.cuda.empty_cache()",
            "model(x)",
        ),
        ("model(x)\nif a:\n    if b:\n        torch.cuda.empty_cache()", "model(x)"),
        ("model(x)\nif a:\n    gc.collect()\n    torch.cuda.empty_cache()", "model(x)"),
        ("model(x)\n\nif a:\n    torch.cuda.empty_cache()\n\nmodel(x)", "model(x)\n\nmodel(x)"),
        ("model(x)\nif a:\n    torch.cuda.empty_cache()\n\nmodel(x)", "model(x)\n\nmodel(x)"),
    ],
)
def test_an_if_that_has_nothing_else_in_it_goes_too(body: str, after: str) -> None:
    imports = "import gc\nimport torch\n\nDEVICE = torch.device('cuda')\nGONE = gc.get_count()\n"
    found = fixed(RULES["HST301"], emptied(body, imports)).texts[PATH]
    assert found == emptied(after, imports)


@pytest.mark.parametrize(
    "body",
    [
        "if ask(x):\n    torch.cuda.empty_cache()",
        "if (n := x.dim):\n    torch.cuda.empty_cache()",
        "if (yield x):\n    torch.cuda.empty_cache()",
        "if (yield from x):\n    torch.cuda.empty_cache()",
        "if a:\n    torch.cuda.empty_cache()\nelse:\n    model(x)",
        "if a:\n    model(x)\nelif b:\n    torch.cuda.empty_cache()",
        "if a:\n    torch.cuda.empty_cache()",
    ],
)
def test_nothing_goes_where_an_empty_branch_or_loop_would_be_left(body: str) -> None:
    assert findings(RULES["HST301"], emptied(body))
    assert fixed(RULES["HST301"], emptied(body)).texts == {}


@pytest.mark.parametrize(
    ("imports", "after"),
    [
        ("import gc\nimport torch\n", "import torch\n"),
        ("import gc, os\nimport torch\n", "import os\nimport torch\n"),
        ("import os, gc\nimport torch\n", "import os\nimport torch\n"),
        (
            "from tools import (\n    collect,\n    gc,\n)\n",
            "from tools import (\n    collect,\n)\n",
        ),
        ("import gc  # noqa: F401\nimport torch\n", "import gc  # noqa: F401\nimport torch\n"),
        ("import gc\n# gc is of use\n", "import gc\n# gc is of use\n"),
        ("import collector as gc\nimport torch\n", "import torch\n"),
        ("import torch\n\ntry:\n    import gc\nexcept ImportError:\n    gc = None\n", None),
    ],
)
def test_an_import_that_served_nothing_else_goes_too(imports: str, after: str | None) -> None:
    use = "print(os, torch, collect)\n"
    before = f"{imports}{use}gc.collect()\n"
    assert without_idle_imports(PATH, before, f"{imports}{use}") == f"{after or imports}{use}"


def test_an_import_that_nobody_used_before_stays() -> None:
    text = "import gc\nimport torch\n"
    assert without_idle_imports(PATH, text + "torch.ones(1)\n", text + "torch.ones(2)\n") == (
        text + "torch.ones(2)\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\n\nb\n\nc\n", "a\n\nc\n"),
        ("a\n\nb\n\n\nc\n", "a\n\n\nc\n"),
        ("a\n\n\nb\n\nc\n", "a\n\n\nc\n"),
        ("a\nb\n\nc\n", "a\n\nc\n"),
        ("a\n\nb\nc\n", "a\n\nc\n"),
        ("a\r\n\r\nb\r\n\r\nc\r\n", "a\r\n\r\nc\r\n"),
        ("a\n\nb", "a\n\n"),
    ],
)
def test_no_more_empty_lines_are_left_than_there_were(before: str, after: str) -> None:
    lines, body = Lines(before), ast.parse(before).body
    edit = remove_statement(lines, body[1], body)
    assert edit is not None
    assert patched(before, spans(lines, [edit])) == after


def test_anomalies_that_are_searched_for_are_no_more_mentioned() -> None:
    text = "import torch\n\ntorch.autograd.set_detect_anomaly(True)\n\n\nx = torch.ones(1)\n"
    found = fixed(RULES["HST426"], text).texts[PATH]
    assert found == "import torch\n\n\nx = torch.ones(1)\n"


SAMPLER = """\
import torch
from torch import nn

class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(3, 3)

    def get_nll(self, data):
        for x in data:
            z = self.encoder(x)
            z = self.move(z)
        return z.mean().item()

    def move(self, z):
        return self.slope(z)

    def slope(self, z):
        return {slope}
"""


def test_what_its_own_methods_take_the_gradient_of_is_recorded_for_a_reason() -> None:
    rule = RULES["HST406"]
    assert findings(rule, SAMPLER.format(slope="z"))
    assert not findings(rule, SAMPLER.format(slope="torch.autograd.grad(z.sum(), z)[0]"))


def test_a_model_that_is_selected_is_not_run() -> None:
    text = """\
import torch

def transform(owner, x):
    model, offset = owner.{}(x)
    return x.numpy()
"""
    rule = RULES["HST406"]
    assert not findings(rule, text.format("_select_model"))
    assert not findings(rule, text.format("get_model"))


@pytest.mark.parametrize(
    ("path", "after"),
    [("pack/a.py", "a = 1\n"), ("pack/__init__.py", "import gc\na = 1\n")],
)
def test_a_package_keeps_what_others_may_import_from_it(path: str, after: str) -> None:
    before = "import gc\na = 1\ngc.collect()\n"
    assert without_idle_imports(path, before, "import gc\na = 1\n") == after


def test_an_if_that_awaits_stays() -> None:
    text = emptied("if await x:\n    torch.cuda.empty_cache()", "import torch\n\nT = torch\n")
    text = text.replace("def train", "async def train")
    assert findings(RULES["HST301"], text)
    assert fixed(RULES["HST301"], text).texts == {}
