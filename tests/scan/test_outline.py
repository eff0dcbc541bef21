"""What a file's outline holds."""

import ast

from hasten.scan.look import assigned
from hasten.scan.outline import outline


def test_attributes_that_are_set_are_found_by_their_name() -> None:
    text = "torch.backends.cudnn.benchmark = True\nother.thing = 1\n"
    found = outline(ast.parse(text), [], [], ["benchmark"])
    (site,) = found.writes["benchmark"]
    assert ast.unparse(site.node) == "torch.backends.cudnn.benchmark"
    assert ast.unparse(assigned(site) or site.node) == "True"
    assert list(found.writes) == ["benchmark"]
