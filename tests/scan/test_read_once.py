"""Numbers that a loop reads in every step: where they are read once after it, and where not."""

import ast
from collections.abc import Mapping, Sequence

import pytest
import torch
from torch import nn

from hasten.records.scan import CodeFinding, Safety
from hasten.scan.analysis import Rules, analyse
from hasten.scan.fixing import Fixed, fix_texts
from hasten.scan.link import Tree
from hasten.scan.registry import all_rules

PATH = "train.py"
ITEM = {rule.code: rule for rule in all_rules() if rule.code in ("HST201", "HST203")}


def look(changed: Mapping[str, str]) -> Sequence[CodeFinding]:
    analyses = {path: analyse(text, Rules.of(ITEM.values())) for path, text in changed.items()}
    return Tree(analyses).findings(ITEM)


def fixed(text: str) -> Fixed:
    texts = {PATH: text}
    return fix_texts(texts, look(texts), look, unsafe=True)


def loop(inside: str, *, before: str = "total = 0.0", after: str = "return total / 3") -> str:
    """A training that runs on a device that is named."""
    lines = ["    " * 2 + line for line in inside.splitlines()]
    return "\n".join(
        [
            "import torch",
            "",
            "def train(model, loader, optimizer, device='cuda'):",
            *("    " + line for line in before.splitlines()),
            "    for x, y in loader:",
            "        loss = model(x, y)",
            "        loss.backward()",
            "        optimizer.step()",
            *lines,
            *("    " + line for line in after.splitlines()),
            "",
        ]
    )


def safeties(text: str) -> set[Safety]:
    return {each.fix.safety for each in look({PATH: text}) if each.fix is not None}


@pytest.mark.parametrize(
    ("inside", "becomes"),
    [
        ("total += loss.item()", "total += loss.detach().double()"),
        ("total += loss.item() * len(x)", "total += loss.detach().double() * len(x)"),
        ("total += x.size(0) * loss.item()", "total += x.size(0) * loss.detach().double()"),
        (
            "total += 2 * (loss.item() * x.shape[0])",
            "total += 2 * (loss.detach().double() * x.shape[0])",
        ),
        ("total += loss.detach().cpu().item()", "total += loss.detach().double()"),
        ("total += (loss / 2).item()", "total += (loss / 2).detach().double()"),
        (
            "with torch.no_grad():\n    total += loss.item()",
            "with torch.no_grad():\n    total += loss.double()",
        ),
    ],
)
def test_a_sum_of_floats_is_kept_in_double(inside: str, becomes: str) -> None:
    (text,) = fixed(loop(inside)).texts.values()
    assert text == loop(becomes, after="total = float(total)\nreturn total / 3")
    assert not look({PATH: text})
    assert safeties(loop(inside)) == {"safe"}


def test_a_count_is_kept_whole() -> None:
    before = loop(
        "right += (model(x).argmax(1) == y).sum().item()", before="right = 0", after="return right"
    )
    (text,) = fixed(before).texts.values()
    assert text == loop(
        "right += (model(x).argmax(1) == y).sum()",
        before="right = 0",
        after="right = int(right)\nreturn right",
    )


def test_all_waits_of_a_loop_are_removed_or_none() -> None:
    before, after = "total = 0\nlosses = []", "return total, losses"
    inside = "total += loss.item()\nlosses.append(loss.item())"
    (text,) = fixed(loop(inside, before=before, after=after)).texts.values()
    assert "losses.append(loss.detach().clone())" in text
    assert "total += loss.detach().double()" in text
    asks = "if torch.isnan(loss):\n    break\n"
    assert fixed(loop(asks + inside, before=before, after=after)).texts == {}


def test_a_sum_of_two_losses_is_read_once() -> None:
    (text,) = fixed(loop("total += loss.item()\ntotal += loss.item() * 2")).texts.values()
    assert text.count("total = float(total)") == 1


@pytest.mark.parametrize(
    ("inside", "before", "after"),
    [
        ("total += loss.item()\nprint(total)", "total = 0.0", ""),
        ("total += loss.item()\nif total > 3:\n    break", "total = 0.0", ""),
        ("total = total + loss.item()", "total = 0.0", "return total"),
        ("total -= loss.item()", "total = 0.0", "return total"),
        ("total += loss.item() / n", "total = 0.0\nn = 3", "return total"),
        ("total += loss.item() + loss.item()", "total = 0.0", "return total"),
        ("total += loss.item() * unknown", "total = 0.0", "return total"),
        ("total = 0.0\ntotal += loss.item()", "total = 0.0", "return total"),
        ("total += loss.item()", "total = start()", "return total"),
        ("total += x.mean().item()", "total = 0", "return total"),
        ("total += loss.item()", "total = 0.0\ndef show():\n    print(total)", "return total"),
        ("total += loss.item()", "global total\ntotal = 0.0", ""),
        ("total += loss.item()", "total = 0.0\nprint(locals())", "return total"),
        ("self.total += loss.item()", "total = 0.0", "return total"),
        ("sums['a'] += loss.item()", "sums = {'a': 0.0}", "return sums"),
        ("total += sum(each.item() for each in loss)", "total = 0.0", "return total"),
        ("losses.append(loss.item())\nlosses.sort()", "losses = []", "return losses"),
        ("losses.append(loss.item())\nbest = min(losses)", "losses = []", "return losses"),
        ("losses.append(loss.item())\nprint(f'{losses[-1]}')", "losses = []", "return losses"),
        ("losses.append(loss.item())", "losses = [1.0]", "return losses"),
        ("losses.append(x.argmax().item())", "losses = []", "return losses"),
        ("losses.append(2 * loss.item())", "losses = []", "return losses"),
        ("losses.append(loss.item())\nother = losses", "losses = []", "return losses"),
    ],
)  # fmt: skip
def test_what_could_be_seen_is_not_fixed(inside: str, before: str, after: str) -> None:
    text = loop(inside, before=before, after=after)
    ast.parse(text)
    assert look({PATH: text}), "nothing is found here at all"
    assert fixed(text).texts == {}


@pytest.mark.parametrize(
    "around",
    [
        "try:\n{}\nexcept KeyboardInterrupt:\n    pass",
        "try:\n{}\nfinally:\n    print(total)",
        "with suppress(ValueError):\n{}",
    ],
)
def test_a_loop_that_an_error_may_leave_is_not_fixed(around: str) -> None:
    lines = loop("total += loss.item()", after="").splitlines()
    inner = "\n".join("    " + line[4:] for line in lines[4:] if line.strip())
    body = around.format(inner).splitlines()
    text = "\n".join([*lines[:4], *("    " + line for line in body), "    return total", ""])
    ast.parse(text)
    assert look({PATH: text})
    assert fixed(text).texts == {}


def test_a_device_that_may_lack_double_makes_it_unsafe() -> None:
    text = loop("total += loss.item()")
    assert safeties(text) == {"safe"}
    assert safeties(text.replace("'cuda'", "None")) == {"unsafe"}
    assert safeties(text.replace("'cuda'", "'cuda' or 'mps'")) == {"unsafe"}


def test_a_list_without_end_is_unsafe() -> None:
    text = loop("losses.append(loss.item())", before="losses = []", after="return losses")
    assert safeties(text) == {"safe"}
    assert safeties(text.replace("x, y in loader", "x in range(y)")) == {"unsafe"}


TRAINING = """\
import torch

def train(model, loader, optimizer, epochs, device="cuda"):
    told = []
    kept = []
    total = 0
    for epoch in range(epochs):
        epoch_loss = 0.0
        right = 0
        for x, y in loader:
            optimizer.zero_grad()
            out = model(x)
            loss = torch.nn.functional.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            epoch_loss += loss.item() * len(x)
            total += loss.item()
            right += (out.argmax(1) == y).sum().item()
            kept.append(loss.item())
            loss.data.mul_(0)
        told.append((epoch_loss / len(loader), right, kept[-1]))
    return told, total, kept
"""


def run(text: str, batches: int, epochs: int) -> tuple[object, ...]:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    loader = [(torch.randn(n + 1, 4), torch.randint(3, (n + 1,))) for n in range(batches)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    names: dict[str, object] = {}
    exec(compile(text, PATH, "exec"), names)
    train = names["train"]
    assert callable(train)
    return train(model, loader, optimizer, epochs)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("batches", "epochs"), [(1, 1), (7, 3), (3, 0)])
def test_the_same_numbers_come_of_it_to_the_bit(batches: int, epochs: int) -> None:
    found = fixed(TRAINING)
    assert len(found.findings) == 4
    (after,) = found.texts.values()
    assert ".item()" not in after
    assert repr(run(after, batches, epochs)) == repr(run(TRAINING, batches, epochs))
