"""Inputs repeated before they are encoded, so that the same is encoded many times."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import following, last_name

ENCODES = re.compile(r"encod|embed|backbone|extract|featuri[sz]e")
REACH = 3
"""Statements after the copy among which the encoder is looked for."""


class RepeatedThenEncoded(Rule):
    code = "HST431"
    name = "repeated-then-encoded"
    why = "The encoder computes the same rows once for every copy."
    instead = "Encode first and repeat the result."
    risk = "none without dropout or batch statistics in the encoder"
    calls = ("repeat", "repeat_interleave", "tile", "cat")
    least = Heat.ONCE
    severity = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

class Captioner(torch.nn.Module):
    def generate(self, images, beams):
        images = torch.repeat_interleave(images, beams, dim=0)  # !
        latent = self.encode_image(images)
        wide = torch.cat(beams * [images])  # !
        hidden = self.encoder(wide)
        return self.decode(latent, hidden)
""",
        """\
import torch

class Captioner(torch.nn.Module):
    def generate(self, images, beams, other):
        latent = self.encode_image(images)
        latent = latent.repeat(beams, 1)
        both = torch.cat([images, other])
        hidden = self.encoder(both)
        noise = torch.randn(8).repeat(beams, 1)
        return self.decode(latent, hidden, noise)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        statement = site.statement
        if not isinstance(statement, ast.Assign) or statement.value is not call:
            return
        if called_name(call) == "cat" and not _is_of_copies(call):
            return
        target = last_name(statement.targets[0])
        for each in following(site)[:REACH]:
            encoder = _encoder_of(each, target)
            if encoder is not None:
                said = f"`{look.source(encoder.func)}` is given `{target}`, which is copies"
                yield Found(call, said)
                return


def _is_of_copies(call: ast.Call) -> bool:
    """``torch.cat(n * [x])``."""
    return bool(call.args) and isinstance(call.args[0], ast.BinOp)


def _encoder_of(statement: ast.stmt, name: str) -> ast.Call | None:
    """The encoder that a statement gives the name to first of all."""
    value = statement.value if isinstance(statement, ast.Assign | ast.Return) else None
    while isinstance(value, ast.Attribute | ast.Subscript):
        value = value.value
    if not isinstance(value, ast.Call) or not value.args or last_name(value.args[0]) != name:
        return None
    return value if ENCODES.search(called_name(value).lower()) else None
