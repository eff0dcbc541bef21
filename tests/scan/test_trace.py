"""Where values come from, within a function."""

import ast

import pytest

from hasten.scan.look import Look
from hasten.scan.models import is_model_call, model_behind
from hasten.scan.outline import Site
from hasten.scan.trace import (
    body_of,
    calls_in,
    following,
    last_given,
    last_name,
    operands,
    root_name,
    siblings,
    varies,
)
from hasten.scan.traversal import outline


def asked(text: str) -> tuple[Site, Look]:
    """The call of ``asked`` in a text."""
    found = outline(ast.parse(text), ("asked",), ())
    return found.calls["asked"][0], Look(found, text)


TEXT = """
import torch
def run(model, loader, x):
    first = x
    for each in loader:
        out, state = model(each)
        rows = torch.tanh(out)[0]
        asked(rows, each, x)
        first = rows
    return first
"""


def test_a_name_is_followed_to_what_it_was_last_given_above() -> None:
    site, _ = asked(TEXT)
    rows, each, x = site.node.args
    assert ast.unparse(last_given(rows, site.function) or rows) == "torch.tanh(out)[0]"
    assert last_given(each, site.function) is None
    assert last_given(x, site.function) is None


def test_a_result_leads_back_to_the_model_that_gave_it() -> None:
    site, look = asked(TEXT)
    found = model_behind(site.node.args[0], site.function, look)
    assert found is not None
    assert is_model_call(found, site.function, look)
    assert ast.unparse(found) == "model(each)"
    assert model_behind(site.node.args[0], site.function, look, stops=("tanh",)) is None
    assert model_behind(site.node.args[2], site.function, look) is None


def test_what_a_loop_gives_a_value_varies_in_it() -> None:
    site, _ = asked(TEXT)
    assert site.loop is not None
    assert [varies(each, site.loop) for each in site.node.args] == [True, True, False]
    assert {ast.unparse(each.node.func) for each in calls_in(site.loop)} == {
        "model",
        "torch.tanh",
        "asked",
    }


def test_statements_beside_and_after_a_place_are_of_its_own_body() -> None:
    site, _ = asked(TEXT)
    assert len(siblings(site)) == 4
    assert [ast.unparse(each) for each in following(site)] == ["first = rows"]


@pytest.mark.parametrize(
    ("text", "root"), [("a.b[0].c()", "a"), ("a(b)", "a"), ("(a + b).c", None), ("3", None)]
)
def test_a_row_of_methods_has_a_root(text: str, root: str | None) -> None:
    found = root_name(ast.parse(text, mode="eval").body)
    assert (found and found.id) == root


@pytest.mark.parametrize(
    ("text", "held"), [("a.f(b)", ["a", "b"]), ("f(a)", ["a"]), ("a + b", ["a", "b"]), ("a", [])]
)
def test_operands_are_the_receiver_and_the_arguments(text: str, held: list[str]) -> None:
    found = operands(ast.parse(text, mode="eval").body)
    assert [ast.unparse(each) for each in found] == held


def test_a_body_is_that_of_a_block_or_of_the_function() -> None:
    site, _ = asked(TEXT)
    assert body_of(site.block, site.function) == siblings(site)
    first, *_ = body_of(None, site.function)
    assert ast.unparse(first) == "first = x"


def test_the_last_name_is_that_of_a_plain_name_only() -> None:
    found = [last_name(ast.parse(each, mode="eval").body) for each in ("a", "a.b", "f().c", "f()")]
    assert found == ["a", "b", "c", ""]
