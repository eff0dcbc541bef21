"""Which loops hand a state on, and what in them does not need it."""

import ast

import pytest

from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.recurrence import handed_on, hands_on, recurrence
from hasten.scan.traversal import outline


def loop_of(text: str) -> tuple[Site, Look]:
    found = outline(ast.parse(text), (), (ast.For,))
    return found.nodes[ast.For][0], Look(found, text)


CELL = """
import torch
class Net(torch.nn.Module):
    def forward(self, x, h):
        for t in range(x.size(1)):
            drive = self.drive(x[:, t])
            h = self.cell(x[:, t] + drive, h)
            out = self.out(h)
"""


def test_a_cell_that_takes_and_gives_its_state_is_a_recurrence() -> None:
    site, _ = loop_of(CELL)
    found = recurrence(site)
    assert found is not None
    assert found.moment == "t"
    assert "h" in found.state
    assert [ast.unparse(call.func) for call in found.parallel()] == ["self.drive"]


@pytest.mark.parametrize(
    "body",
    [
        "h = self.layers[t](x[:, t], h)",
        "y = self.cell(x[:, t], h)",
        "h = self.forward(x[:, t], h)",
    ],
)
def test_layers_and_own_methods_are_none(body: str) -> None:
    site, _ = loop_of(CELL.replace("h = self.cell(x[:, t] + drive, h)", body))
    assert recurrence(site) is None


@pytest.mark.parametrize(
    ("header", "body", "state"),
    [
        ("t in reversed(range(n))", "last = x[t] + 0.9 * last", "last"),
        ("i in range(n)", "x[:, i + 1] = x[:, i] * 2", "x"),
        ("i in range(n)", "x[i] = x[i] * 2", ""),
        ("i in range(n)", "last = x[i] + last", ""),
        ("t in times", "last = x[t] + last", ""),
        ("t in range(n)", "last = other[t] + last", ""),
    ],
)
def test_plain_operations_hand_on_a_name_or_an_index(header: str, body: str, state: str) -> None:
    text = f"""
import torch
def step(n, last, times, other):
    x = torch.zeros(8, n)
    for {header}:
        {body}
"""
    assert hands_on(*loop_of(text)) == state


def test_what_is_only_added_to_is_not_handed_on() -> None:
    site, _ = loop_of("for t in range(3):\n    total += x[t]\n    a = b\n    b = f(a)")
    assert handed_on(site.node) == {"b"}


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ("total = total + x[t] + y[t]", set()),
        ("x[t] = x[t] * y[t]", set()),
        ("x[t] = y.new_zeros(x.shape)", set()),
        ("x[t] = x[t - 1] * y[t]", {"x"}),
        ("if a:\n        h = f(h)", {"h"}),
    ],
)
def test_a_place_and_a_sum_hand_nothing_on(body: str, state: set[str]) -> None:
    site, _ = loop_of(f"for t in range(3):\n    {body}")
    assert handed_on(site.node) == state
