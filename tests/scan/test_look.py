"""What rules are told about a place."""

import ast

import pytest

from hasten.scan.look import Look, are_alternatives
from hasten.scan.outline import Site
from hasten.scan.traversal import outline


def site_of_call(text: str, name: str = "asked") -> tuple[Site, Look]:
    found = outline(ast.parse(text), (name,), ())
    return found.calls[name][0], Look(found, text)


@pytest.mark.parametrize(
    ("guard", "rare"),
    [
        ("if step % 100 == 0:", True),
        ("if length % period != 0:", False),
        ("if self.verbose:", True),
        ("if self.first is None:", True),
        ("if mask is None:", False),
        ("if True:", False),
    ],
)
@pytest.mark.parametrize("expression", ["asked(x)", "[asked(each) for each in x]"])
def test_what_an_if_lets_run_now_and_then_is_rare(guard: str, rare: bool, expression: str) -> None:
    text = f"for step, x in steps:\n    {guard}\n        self.first = {expression}"
    site, look = site_of_call(text)
    assert look.is_rare(site) is rare


@pytest.mark.parametrize(
    ("index", "is_mask"),
    [
        ("x > 0", True),
        ("~torch.isnan(x)", True),
        ("(x > 0) & (x < 3)", True),
        ("kept", True),
        ("torch.ones(3, dtype=torch.bool)", True),
        ("mask", True),
        ("x.any(dim=1)", True),
        ("torch.arange(3)", False),
        ("order", False),
        ("0", False),
    ],
)
def test_a_tensor_of_booleans_is_told_from_other_indices(index: str, is_mask: bool) -> None:
    text = f"""
import torch
from torch import nn
class Net(nn.Module):
    def forward(self, x, mask):
        kept = x != 1
        order = x.argsort()
        asked({index})
"""
    site, look = site_of_call(text)
    assert look.is_mask(site.node.args[0], site) is is_mask


@pytest.mark.parametrize(
    "expression", ["torch.ones(3)", "(torch.ones(3) * 2).long()", "made", "made[0].view(1)"]
)
def test_a_row_of_methods_leads_back_to_where_it_begins(expression: str) -> None:
    text = f"""
import torch
def step(x):
    made = torch.ones(3)
    asked({expression})
"""
    site, look = site_of_call(text)
    assert look.source(look.origin(site.node.args[0], site)) == "torch.ones(3)"


def test_a_name_in_its_own_definition_of_several_lines_is_what_it_was_before() -> None:
    text = """
import torch
def step(n):
    x = torch.ones(3)
    x = (
        x.long()
    )
    asked(x)
"""
    site, look = site_of_call(text)
    assert look.source(look.origin(site.node.args[0], site)) == "torch.ones(3)"


def test_a_name_that_is_only_given_itself_has_no_origin() -> None:
    text = """
def step(n):
    x = (
        x.long()
    )
    asked(x)
"""
    site, look = site_of_call(text)
    assert look.source(look.origin(site.node.args[0], site)) == "x"


@pytest.mark.parametrize(
    "given",
    ["made = (\n        made.view(1)\n    )", "made = torch.stack([\n        made[0],\n    ])"],
)
def test_a_name_within_its_own_new_value_has_the_old_one(given: str) -> None:
    text = f"""
import torch
def step(made):
    {given}
    return asked(made)
"""
    site, look = site_of_call(text)
    assert isinstance(look.origin(site.node.args[0], site), ast.Name | ast.Call)
    assert not look.is_mask(site.node.args[0], site)


@pytest.mark.parametrize(
    ("condition", "is_rare"),
    [
        ("step % 100 == 0", True),
        ("self.verbose", True),
        ("should_log", True),
        ("not torch.isfinite(loss)", True),
        ("self.log_scale > 0", False),
        ("report is not None", False),
        ("mask.any()", False),
    ],
)
def test_a_condition_tells_whether_what_it_guards_is_rare(condition: str, is_rare: bool) -> None:
    text = f"""
import torch
def step(loss):
    if {condition}:
        for each in things:
            asked(loss)
"""
    site, look = site_of_call(text)
    assert look.is_rare(site) == is_rare


def test_what_trains_every_so_many_steps_is_not_rare() -> None:
    text = """
def step(loss, number):
    if number % 2 == 0:
        asked(loss)
        loss.backward()
"""
    site, look = site_of_call(text)
    assert not look.is_rare(site)


def test_two_sides_of_a_condition_are_alternatives() -> None:
    text = """
def step(half):
    if half:
        with scaled:
            one()
    else:
        two()
    three()
"""
    found = outline(ast.parse(text), ("one", "two", "three"), ())
    one, two, three = (found.calls[name][0] for name in ("one", "two", "three"))
    assert are_alternatives(one, two)
    assert not are_alternatives(one, one)
    assert not are_alternatives(two, three)


@pytest.mark.parametrize(
    ("decorator", "compiled"),
    [("numba.njit", True), ("jit(nopython=True)", True), ("torch.no_grad()", False)],
)
def test_what_numba_compiles_is_known(decorator: str, compiled: bool) -> None:
    text = f"@{decorator}\ndef step(x):\n    asked(x)\n"
    site, look = site_of_call(text)
    assert look.is_compiled(site.function) is compiled


@pytest.mark.parametrize(
    ("before", "inside", "rare"), [("total = None", "", True), ("", "total = None", False)]
)
def test_what_begins_a_sum_in_the_first_turn_is_rare(before: str, inside: str, rare: bool) -> None:
    text = f"""
{before or "pass"}
for x in steps:
    {inside or "pass"}
    if total is None:
        total = asked(x)
"""
    site, look = site_of_call(text)
    assert look.is_rare(site) is rare
