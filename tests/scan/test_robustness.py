"""No file ends a scan, whatever stands in it."""

import ast
import warnings
from pathlib import Path

import pytest
import test
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.scan.analysis import analyse, analyse_content
from hasten.scan.link import Tree
from hasten.scan.looking import Rules
from hasten.scan.reading import UnreadableError, matters, read
from hasten.scan.registry import all_rules
from hasten.scan.vocabulary import words

RULES = Rules.of(all_rules())
BY_CODE = {rule.code: rule for rule in all_rules()}
SUITE = Path(test.__file__).parent
"""Of the standard library: odd grammar, odd encodings, odd names."""
ODD = words(
    "test_grammar.py test_fstring.py test_patma.py test_source_encoding.py test_unpack_ex.py"
    " test_syntax.py encoded_modules/module_koi8_r.py test_named_expressions.py test_asyncgen.py"
    " test_type_comments.py test_ast.py"
)


@pytest.mark.parametrize("name", sorted(ODD))
def test_files_of_the_standard_librarys_own_tests(name: str) -> None:
    """All of them are read by benchmarks/scan_speed.py."""
    try:
        content = read(SUITE / name)
    except UnreadableError:
        pytest.skip("this Python comes without it")
    is_python = _parses(content)
    assert is_python != bool(analyse_content(b"import torch\n" + content, RULES).failure)


def _parses(content: bytes) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(b"import torch\n" + content)
    except (SyntaxError, ValueError):
        return False
    return True


NAMES = st.sampled_from(
    sorted(words("x y loss model loader self optimizer torch np df batch mask"))
)
METHODS = st.sampled_from(
    sorted(
        words("item cpu to numpy backward step append mean iterrows apply values cuda shape cat")
    )
)
ATOMS = NAMES | st.sampled_from(["1", "0.5", "'text'", "None", "()", "[]", "{}", "..."])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{}.{}".format, inner, METHODS),
        st.builds("{}.{}({})".format, inner, METHODS, inner),
        st.builds("torch.{}({}, device={})".format, METHODS, inner, inner),
        st.builds("({} + {})".format, inner, inner),
        st.builds("({} < {})".format, inner, inner),
        st.builds("{}[{}]".format, inner, inner),
        st.builds("{}[{}:{}, ...]".format, inner, inner, inner),
        st.builds("[{} for {} in {} if {}]".format, inner, NAMES, inner, inner),
        st.builds("{{**{}, {}: {}}}".format, inner, inner, inner),
        st.builds("(lambda {}: {})".format, NAMES, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("(\n{}\n)".format, inner),
        st.builds("(y := {})".format, inner),
        st.builds("f'{{{}}}'".format, inner.filter(lambda text: "'" not in text)),
        st.builds("{}(*{}, **{})".format, NAMES, inner, inner),
    )


EXPRESSIONS = st.recursive(ATOMS, _grown, max_leaves=8)


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(inner, min_size=1, max_size=3).map(
        lambda lines: "\n".join(f"    {line}" for text in lines for line in text.split("\n"))
    )
    return st.one_of(
        st.builds("for {} in {}:\n{}".format, NAMES, EXPRESSIONS, body),
        st.builds("for {}, *y in {}:\n{}\nelse:\n{}".format, NAMES, EXPRESSIONS, body, body),
        st.builds("while {}:\n{}".format, EXPRESSIONS, body),
        st.builds("if {}:\n{}\nelif x:\n{}".format, EXPRESSIONS, body, body),
        st.builds("with {} as x, {}:\n{}".format, EXPRESSIONS, EXPRESSIONS, body),
        st.builds("def {}({}, *args, y=1):\n{}".format, NAMES, st.just("self"), body),
        st.builds(
            "class Net(torch.nn.Module):\n    def forward(self, x):\n{}".format,
            body.map(lambda text: "\n".join(f"    {line}" for line in text.split("\n"))),
        ),
        st.builds("class {}({}):\n{}".format, NAMES, EXPRESSIONS, body),
        st.builds("try:\n{}\nexcept ValueError as x:\n{}\nfinally:\n{}".format, body, body, body),
        st.builds("match {}:\n    case [x, *y]:\n        pass".format, EXPRESSIONS),
    )


STATEMENTS = st.recursive(
    st.one_of(
        EXPRESSIONS,
        st.builds("{} = {}".format, NAMES, EXPRESSIONS),
        st.builds("x, (y, *loss) = {}".format, EXPRESSIONS),
        st.builds("self.{} = {}".format, NAMES, EXPRESSIONS),
        st.builds("{} += {}".format, NAMES, EXPRESSIONS),
        st.builds("x: {} = {}".format, EXPRESSIONS, EXPRESSIONS),
        st.builds("del {}".format, NAMES),
        st.builds("assert {}, {}".format, EXPRESSIONS, EXPRESSIONS),
    ),
    _nested,
    max_leaves=10,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STATEMENTS, min_size=1, max_size=4))
def test_modules_that_were_made_up(statements: list[str]) -> None:
    text = "import torch\nimport numpy as np\n" + "\n".join(statements) + "\n"
    analysis = analyse(text, RULES)
    found = Tree({"made.py": analysis}).findings(BY_CODE)
    count = text.count("\n") + 1
    assert all(1 <= each.line <= each.end_line <= count and each.column >= 1 for each in found)
    assert all((each.line, each.column) < (each.end_line, each.end_column) for each in found)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_were_made_up(content: bytes) -> None:
    analyse_content(b"import torch\n" + content, RULES)


def test_a_name_in_its_own_new_value_goes_round_in_no_circle() -> None:
    text = """\
import torch

def f(loader, device):
    for x in loader:
        x = (
            x.view(-1)
            .to(device)
        )
        m = (
            m & (x > 0)
        )
        x[m] = x
"""
    assert not analyse(text, RULES).failure


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"def collate(rows): ...", True),
        (b"class Rows(BaseDataset):", True),
        (b"def fit(model, batches): ...", True),
        (b"import os\nprint(os.name)", False),
    ],
)
def test_what_trains_or_loads_matters_without_importing_torch(content: bytes, what: bool) -> None:
    assert matters(content) is what
