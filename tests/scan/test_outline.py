"""What a file's outline holds."""

import ast

from hasten.scan.look import assigned
from hasten.scan.traversal import outline


def test_attributes_that_are_set_are_found_by_their_name() -> None:
    text = "torch.backends.cudnn.benchmark = True\nother.thing = 1\n"
    found = outline(ast.parse(text), [], [], ["benchmark"])
    (site,) = found.writes["benchmark"]
    assert ast.unparse(site.node) == "torch.backends.cudnn.benchmark"
    assert ast.unparse(assigned(site) or site.node) == "True"
    assert list(found.writes) == ["benchmark"]


def test_calls_are_found_by_how_their_names_end() -> None:
    found = outline(ast.parse("GraphLoader(x)\nDataLoader(y)\nload(z)\n"), ["*Loader", "load"], [])
    assert [ast.unparse(each.node) for each in found.calls["*Loader"]] == [
        "GraphLoader(x)",
        "DataLoader(y)",
    ]
    assert set(found.calls) == {"*Loader", "load"}


def test_a_base_with_its_type_in_brackets_is_the_base() -> None:
    found = outline(ast.parse("class Rows(Dataset[int], data.Other): ..."), [], [])
    assert found.classes["Rows"].bases == ("Dataset", "data.Other")


def test_a_class_has_the_bases_of_the_files_own_classes_that_it_is_derived_from() -> None:
    text = "class A(data.Dataset): ...\nclass B(A): ...\nclass C(B, Mixin): ..."
    found = outline(ast.parse(text), (), ())
    assert found.classes["C"].lineage == ("B", "Mixin", "A", "data.Dataset")
    assert found.classes["C"].bases == ("B", "Mixin")
