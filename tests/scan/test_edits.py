"""Each edit against the tree that it should make, in code that is laid out in every way."""

import ast
from collections.abc import Callable

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

from hasten.records.scan import Edit
from hasten.scan.arguments import add_keyword, insert_into_call, take_over_argument
from hasten.scan.edits import (
    add_import,
    insert_line_after,
    insert_line_before,
    remove_statement,
    replace,
    replace_methods,
)
from hasten.scan.lines import Lines
from hasten.scan.patch import patched, spans

INSERTED = "inserted()"


def edited(text: str, *edits: Edit | None) -> str:
    made = [each for each in edits if each is not None]
    return patched(text, spans(Lines(text), made))


def parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError:
        raise UnsatisfiedAssumption from None


def first_call(tree: ast.AST, name: str = "f") -> ast.Call:
    return next(
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.Call) and ast.unparse(each.func).endswith(name)
    )


def with_keyword(text: str) -> str:
    return edited(text, add_keyword(Lines(text), first_call(ast.parse(text)), "k", "v"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "f(k=v)"),
        ("f( )", "f( k=v)"),
        ("f(a)", "f(a, k=v)"),
        ("f(a,)", "f(a, k=v,)"),
        ("f((a))", "f((a), k=v)"),
        ("f(b=(a))", "f(b=(a), k=v)"),
        ("f(*a)", "f(*a, k=v)"),
        ("é(f(a), 'ü')", "é(f(a, k=v), 'ü')"),
        ("x = 'ü€😀', f('ü', b)", "x = 'ü€😀', f('ü', b, k=v)"),
        ("f(a, # )\n  b # ,\n)", "f(a, # )\n  b, k=v # ,\n)"),
        ("f(\n    a,\n    b,  # why, (\n)", "f(\n    a,\n    b,  # why, (\n    k=v,\n)"),
        ("f(\n\ta,\n)", "f(\n\ta,\n\tk=v,\n)"),
        ("f(\r\n    a,\r\n)", "f(\r\n    a,\r\n    k=v,\r\n)"),
        ("f(\n    a\n)", "f(\n    a, k=v\n)"),
        ("f(\n    a, b,\n)", "f(\n    a, b, k=v,\n)"),
        ("f(a \\\n  )", "f(a, k=v \\\n  )"),
        ("f((b for b in c))", "f((b for b in c), k=v)"),
    ],
)
def test_a_keyword_is_put_behind_the_last_argument(before: str, after: str) -> None:
    assert with_keyword(before) == after


LONG = "a" * 90


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"xyz = f({LONG})", f"xyz = f({LONG},\n        k=v)"),
        (f"\tx = f({LONG}, b)", f"\tx = f({LONG}, b,\n\t      k=v)"),
        (f"x = f(\n    {LONG}, b\n)", f"x = f(\n    {LONG}, b,\n    k=v\n)"),
        (f"x = f(\r\n    b, {LONG}\r\n)", f"x = f(\r\n    b, {LONG},\r\n    k=v\r\n)"),
        (f"x = f(b,\n      {LONG}c)", f"x = f(b,\n      {LONG}c,\n      k=v)"),
        (f"x = f({LONG},)", f"x = f({LONG},\n      k=v,)"),
        (f"x = f({LONG})\n# {LONG}{LONG}", f"x = f({LONG}, k=v)\n# {LONG}{LONG}"),
    ],
)
def test_a_keyword_has_a_line_of_its_own_where_there_is_no_room(before: str, after: str) -> None:
    text = f"if a:\n{before}" if before.startswith("\t") else before
    expected = f"if a:\n{after}" if before.startswith("\t") else after
    assert with_keyword(text) == expected
    ast.parse(expected)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = f(a).to(v)", "x = f(a, k=v)"),
        ("x = f().to(\n    v\n)", "x = f(k=v)"),
        ("x = f(a, b).to(\n    v\n)", "x = f(\n    a, b, k=v\n)"),
        ("x = f(a).to(\n    v,\n).b", "x = f(\n    a, k=v\n).b"),
        ("x = f(a,).to(\n    v), c", "x = f(\n    a, k=v,), c"),
        ("x = f(\n    a\n).to(v)", "x = f(\n    a, k=v\n)"),
        ("x = f(\n    a,\n).to(\n    v\n)", "x = f(\n    a,\n    k=v,\n)"),
        (f"x = f({LONG}).to(v)", f"x = f({LONG}, k=v)"),
        (f"x = f({LONG}).to(\n    v\n)", f"x = f(\n    {LONG}, k=v\n)"),
        (f"x=f({LONG}).to(\n        v\n)", f"x=f(\n        {LONG},\n        k=v\n)"),
        (f"x = f(\n    {LONG}cd\n).to(v)", f"x = f(\n    {LONG}cd,\n    k=v\n)"),
    ],
)
def test_an_argument_of_a_method_is_taken_over_with_its_lines(before: str, after: str) -> None:
    tree = ast.parse(before)
    made, method = first_call(tree), first_call(tree, ".to")
    assert edited(before, *take_over_argument(Lines(before), made, method, "k", "v")) == after
    ast.parse(after)


def test_an_argument_with_a_comment_on_it_is_not_taken_over() -> None:
    text = "x = f(a).to(\n    v  # why\n)"
    tree = ast.parse(text)
    edits = take_over_argument(Lines(text), first_call(tree), first_call(tree, ".to"), "k", "v")
    assert None in edits


@pytest.mark.parametrize("text", ["f(k=1)", "f(**options)", "f(b for b in c)"])
def test_a_keyword_that_may_be_there_or_finds_no_place_is_not_added(text: str) -> None:
    assert add_keyword(Lines(text), first_call(ast.parse(text)), "k", "v") is None


SPACE = st.sampled_from(["", " ", "  ", "\n", "\r\n", "\t", " # (, é\n", "\n    ", " \\\n"])
ARGUMENT = st.sampled_from(
    [
        "a",
        "(a)",
        "((a))",
        "'ü,)'",
        "*a",
        "b=1",
        "c=(1)",
        "d='''x\ny'''",
        "g(1, )",
        "[1, 2]",
        "a[1:]",
    ]
)


@st.composite
def calls(draw: st.DrawFn) -> str:
    arguments = draw(st.lists(ARGUMENT, max_size=4, unique=True))
    arguments.sort(key=lambda each: "=" in each and not each.startswith("'"))
    parts = [f"{draw(SPACE)}{each}{draw(SPACE)}" for each in arguments]
    comma = draw(st.sampled_from(["", ","])) if parts else ""
    before = draw(st.sampled_from(["", "x = ", "é = 'é', ", "if a: "]))
    after = draw(st.sampled_from(["", ".b", "; y", " # f(", "\n"]))
    return f"{before}f({','.join(parts)}{comma}{draw(SPACE)}){after}"


@given(calls())
@example("f(\n    'ü',)")
def test_a_keyword_is_all_that_a_call_gains(text: str) -> None:
    expected = parsed(text)
    call = first_call(expected)
    call.keywords.append(ast.keyword("k", ast.Name("v", ast.Load())))
    assert ast.dump(ast.parse(with_keyword(text))) == ast.dump(expected)


@given(calls())
def test_an_argument_is_put_before_all_others(text: str) -> None:
    expected = parsed(text)
    call = first_call(expected)
    edit = insert_into_call(Lines(text), call, "v, " if call.args or call.keywords else "v")
    call.args.insert(0, ast.Name("v", ast.Load()))
    assert ast.dump(ast.parse(edited(text, edit))) == ast.dump(expected)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.to(d)", "x"),
        ("(x).to(d)", "(x)"),
        ("(x + y).cpu().to(d).z", "(x + y).z"),
        ("((x) + (y)).to(\n  d,  \n)", "((x) + (y))"),
        ("y = (\n    x\n    .to(d)\n)", "y = (\n    x\n)"),
        ("'é', x.to(d)", "'é', x"),
    ],
)
def test_the_methods_behind_an_expression_are_replaced(before: str, after: str) -> None:
    call = first_call(ast.parse(before), ".to")
    kept: ast.expr = call
    while isinstance(kept, ast.Call) and isinstance(kept.func, ast.Attribute):
        kept = kept.func.value
    assert edited(before, replace_methods(Lines(before), call, kept, "")) == after


def test_methods_with_a_comment_between_them_are_kept() -> None:
    text = "(x  # why\n.to(d))"
    call = first_call(ast.parse(text), ".to")
    assert replace_methods(Lines(text), call, call.func.value, "") is None  # type: ignore[attr-defined]


SIMPLE = ["a()", "b = 'ü'", "c(\n 1,\n)", "d = '''\nx'''", "del e", "pass"]
COMPOUND = [
    "if x:\n{i}    y",
    "for x in y:\n{i}    z;",
    "@g\n{i}@h(1)\n{i}def k():\n{i}    return 1",
]
JOIN = st.sampled_from(["\n", "; ", " ;", "\n\n", "  # é; \n", "; \\\n    ", ";\n"])


@st.composite
def blocks(draw: st.DrawFn) -> tuple[str, int]:
    """A function, and the number of one of its statements."""
    tabs = draw(st.booleans())
    indentation = "\t" if tabs else "    "
    text = draw(st.sampled_from(["", "# é\n", '"""é"""\n', "\f\n"]))
    text += f"async def é(a):\n{indentation}"
    count = draw(st.integers(1, 4))
    for number in range(count):
        statement = draw(st.sampled_from([*SIMPLE, *COMPOUND]))
        compound = statement in COMPOUND
        text += statement.replace("{i}", indentation)
        if number + 1 < count:
            join = "\n" if compound else draw(JOIN)
            text += join + (indentation if join.endswith("\n") else "")
    text += draw(st.sampled_from(["", "\n", ";", "  # end\n", "\nx = 1"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"]))), draw(
        st.integers(0, count - 1)
    )


def function_body(tree: ast.Module) -> list[ast.stmt]:
    return next(each for each in tree.body if isinstance(each, ast.AsyncFunctionDef)).body


Change = Callable[[Lines, ast.stmt, list[ast.stmt]], Edit | None]


def check_block(
    block: tuple[str, int], change: Change, expect: Callable[[list[ast.stmt], int], None]
) -> None:
    text, number = block
    tree = parsed(text)
    body = function_body(tree)
    edit = change(Lines(text), body[number], body)
    assume(edit is not None)
    expect(body, number)
    after = edited(text, edit)
    assert ast.dump(ast.parse(after)) == ast.dump(tree), after
    ends = {"\r\n", "\r", "\n"} - {Lines(text).newline(0)}
    without = after.replace(Lines(text).newline(0), "")
    assert not any(each in without for each in ends)


STATEMENT = ast.parse(INSERTED).body[0]


@given(blocks())
@example(("async def é(a):\n    a(); \\\n    b = 1", 1))
@example(("async def é(a):\n    a();\n    b = 1", 0))
def test_a_statement_is_removed_and_no_other(block: tuple[str, int]) -> None:
    def expect(body: list[ast.stmt], number: int) -> None:
        text, _ = block
        kept = remove_statement(Lines(text), body[number], body)
        assert kept is not None
        if kept.text == "pass":
            body[number] = ast.Pass()
        else:
            del body[number]

    check_block(block, remove_statement, expect)


@given(blocks())
def test_a_line_is_put_behind_a_statement(block: tuple[str, int]) -> None:
    check_block(
        block,
        lambda lines, statement, _: insert_line_after(lines, statement, INSERTED),
        lambda body, number: body.insert(number + 1, STATEMENT),
    )


@given(blocks())
def test_a_line_is_put_before_a_statement(block: tuple[str, int]) -> None:
    check_block(
        block,
        lambda lines, statement, _: insert_line_before(lines, statement, INSERTED),
        lambda body, number: body.insert(number, STATEMENT),
    )


def test_a_statement_that_is_alone_becomes_pass() -> None:
    text = "if x:\n    f()  # why\n"
    (branch,) = ast.parse(text).body
    assert isinstance(branch, ast.If)
    edit = remove_statement(Lines(text), branch.body[0], branch.body)
    assert edited(text, edit) == "if x:\n    pass  # why\n"


def test_a_statement_goes_with_its_line() -> None:
    text = "a\n\n  # above\nf()  # why\n# below\n"
    body = ast.parse(text).body
    assert edited(text, remove_statement(Lines(text), body[1], body)) == (
        "a\n\n  # above\n# below\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("try:\n    f()\n\n    # on b\n    b\nfinally: c", "try:\n    # on b\n    b\nfinally: c"),
        ("if x:  # y\n    f()\n\n\n    b\n", "if x:  # y\n    b\n"),
        ("if x:\n    # why\n    f()\n\n    b\n", "if x:\n    # why\n\n    b\n"),
        ("if x:\n\n    f()\n\n    b\n", "if x:\n\n    b\n"),
    ],
)  # fmt: skip
def test_no_block_begins_with_an_empty_line_that_was_left(before: str, after: str) -> None:
    body = ast.parse(before).body[0].body  # type: ignore[attr-defined]
    assert edited(before, remove_statement(Lines(before), body[0], body)) == after


def test_an_elif_is_no_place_for_a_line() -> None:
    text = "if a:\n    b\nelif c:\n    d\n"
    (first,) = ast.parse(text).body
    assert isinstance(first, ast.If)
    assert insert_line_after(Lines(text), first.orelse[0], INSERTED) is None
    assert insert_line_before(Lines(text), first.orelse[0], INSERTED) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1\n", "import torch\nx = 1\n"),
        ("#!/bin/sh\n# é\nx = 1\n", "#!/bin/sh\n# é\nimport torch\nx = 1\n"),
        ('"""About."""\nx = 1\n', '"""About."""\nimport torch\nx = 1\n'),
        (
            "from __future__ import annotations\nimport os\n\nx = 1\nimport re",
            "from __future__ import annotations\nimport os\nimport torch\n\nx = 1\nimport re",
        ),
        ("import os  # why\r\n", "import os  # why\r\nimport torch\r\n"),
        ("import os; import re", "import os; import re; import torch"),
        ("import torch.nn as nn", "import torch.nn as nn\nimport torch"),
        ("x = 1\nimport torch", "x = 1\nimport torch"),
    ],
)
def test_an_import_stands_where_imports_stand(before: str, after: str) -> None:
    edits = add_import(Lines(before), ast.parse(before), "torch")
    assert edits is not None
    assert edited(before, *edits) == after


def test_a_node_is_replaced_where_it_stands() -> None:
    text = "'😀é', old('ü'), 1"
    tree = ast.parse(text)
    assert edited(text, replace(Lines(text), first_call(tree, "old"), "new")) == "'😀é', new, 1"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_form_feeds_and_line_separators_end_no_line(end: str) -> None:
    text = f"a = '\x0c\x1c\u2028é'{end}f(b)"
    assert with_keyword(text) == f"a = '\x0c\x1c\u2028é'{end}f(b, k=v)"
