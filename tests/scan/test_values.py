"""What expressions are said to be."""

import ast

import pytest

from hasten.scan.outline import outline
from hasten.scan.values import Value, Values, moves_to_device


def value_of(text: str, name: str = "asked") -> Value:
    """Of what the last ``asked = ...`` in the first function of the text gives."""
    found = outline(ast.parse(text), (), ())
    function = found.functions[1]
    binding = function.bindings[name][-1]
    return Values(found).of(binding.value, function)


def test_a_parameter_is_itself_until_it_is_given_another_value() -> None:
    text = """
def step(self, x: "Tensor"):
    asked = x
    x = x.cuda()
"""
    assert value_of(text) == Value("tensor", "unknown")


def test_what_is_indexed_with_a_tensor_is_a_tensor() -> None:
    text = """
import torch
def step(scores, n):
    order = torch.zeros(n, device="cuda")
    asked = scores[order == 0]
"""
    assert value_of(text) == Value("tensor", "device")


def test_what_was_copied_to_the_host_lies_there_whatever_it_was() -> None:
    text = """
def step(things):
    asked = things.lengths().cpu() > 0
"""
    assert value_of(text) == Value("tensor", "host")


def test_parts_of_an_array_are_arrays() -> None:
    text = """
import numpy as np
def step(image):
    rows, columns = np.nonzero(image)
    asked = rows + 1
"""
    assert value_of(text).kind == "array"


@pytest.mark.parametrize(
    ("call", "moves"),
    [
        ("x.cuda()", True),
        ("x.to(device)", True),
        ("x.to(self.device[0])", True),
        ("x.to(device=self._target_device)", True),
        ('x.to(f"cuda:{rank}")', True),
        ("x.to(torch.device(name))", True),
        ('x.to("cpu")', False),
        ("x.to(torch.float32)", False),
        ("x.to(dtype=torch.long)", False),
        ("x.to(other)", False),
    ],
)
def test_a_copy_to_a_device_is_told_from_a_cast(call: str, moves: bool) -> None:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert moves_to_device(node) is moves
