"""All steps kept, though only an option asks for more than the last."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name


class KeptForAnOption(Rule):
    code = "HST304"
    name = "kept-for-an-option"
    why = "Every intermediate result stays in memory, also where only the last one is returned."
    instead = "Append only if the option is set."
    effort = "a minute"
    nodes = (ast.IfExp,)
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Diffusion(torch.nn.Module):
    def sample(self, shape, return_all=False):
        image = torch.randn(shape)
        images = [image]
        for t in reversed(range(1000)):
            image = self.step(image, t)
            images.append(image)  # !
        return image if not return_all else torch.stack(images, dim=1)
""",
        """\
import torch

class Diffusion(torch.nn.Module):
    def sample(self, shape, return_all=False):
        image = torch.randn(shape)
        images = []
        for t in reversed(range(1000)):
            image = self.step(image, t)
            if return_all:
                images.append(image)
        return torch.stack(images) if return_all else image
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        choice: ast.IfExp = site.node
        joined = next((each for each in (choice.body, choice.orelse) if _is_join(each)), None)
        if not isinstance(joined, ast.Call) or not joined.args:
            return
        name = last_name(joined.args[0])
        for each in site.function.calls:
            if (
                each.called == "append"
                and each.loop is not None
                and name == last_name(receiver(each.node))
                and each.block is not None
                and each.block.node is each.loop.node
            ):
                yield Found(each.node, f"`{name}` keeps all steps for an option")


def _is_join(node: ast.expr) -> bool:
    return called_name(node) in ("stack", "cat", "concat", "concatenate")
