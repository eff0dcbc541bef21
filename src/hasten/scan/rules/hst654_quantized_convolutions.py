"""Dynamic quantization of convolutions."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, argument
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class QuantizedConvolutions(Rule):
    code = "HST654"
    name = "quantized-convolutions"
    why = "Dynamic quantization knows linear and recurrent layers; convolutions stay as they are."
    instead = "Quantize statically, or with torchao."
    effort = "a day"
    risk = "numbers change by the rounding of the quantized type"
    verify = "Print the model and look for quantized layers."
    calls = ("quantize_dynamic",)
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from torch import nn

def small(model):
    return torch.quantization.quantize_dynamic(model, {nn.Conv2d, nn.Linear})  # !
""",
        """\
import torch
from torch.ao.quantization import quantize_dynamic

def small(model):
    return quantize_dynamic(model, qconfig_spec=[torch.nn.Conv1d], dtype=torch.qint8)  # !
""",
        """\
import torch
from onnxruntime.quantization import quantize_dynamic as quantize_file

def small(model, path):
    quantize_file(path, ["Conv2d"])
    return torch.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        layers = argument(site.node, 1, "qconfig_spec")
        if not isinstance(layers, ast.Set | ast.List | ast.Tuple):
            return
        if not look.dotted(site.node.func).startswith("torch."):
            return
        for each in layers.elts:
            name = look.dotted(each)
            if name.rpartition(".")[2].startswith("Conv"):
                yield Found(each, f"`{look.source(each)}` is not quantized dynamically")
                return
