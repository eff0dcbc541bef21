"""What expressions are said to be."""

import ast

import pytest

from hasten.scan.traversal import outline
from hasten.scan.value import UNKNOWN, Value
from hasten.scan.values import Values, moves_to_device


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


def test_both_sides_of_a_difference_that_torch_is_given_are_tensors() -> None:
    text = """
from torch import abs, min
def torus(a, b):
    asked = b
    return min(abs(a - b), 1 - (a - b) ** 2)
"""
    assert value_of(text) == Value("tensor")


def test_the_weight_of_a_layer_is_a_tensor() -> None:
    assert value_of("def step(self):\n    asked = self.table.weight[3]") == Value("tensor")


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


def given(text: str, expression: str, function: str) -> str:
    """The source of what an expression on the function's last line was given."""
    found = outline(ast.parse(text), (), ())
    node = ast.parse(expression, mode="eval").body
    for each in ast.walk(node):
        if isinstance(each, ast.expr):
            each.lineno = len(text.splitlines())
    scope = found.function_named(function)
    assert scope is not None
    made = Values(found).given(node, scope)
    return ast.unparse(made) if made is not None else ""


def test_a_name_is_followed_to_the_expression_it_was_last_given() -> None:
    text = "def f(x):\n    a = g(x)\n    a = h(x)\n    b = a\n    use(b)\n"
    assert given(text, "b", "f") == "h(x)"


def test_an_attribute_of_self_is_followed_to_what_a_method_gave_it() -> None:
    text = (
        "class A:\n    def __init__(self):\n        self.x = g()\n    def f(self):\n        use()\n"
    )
    assert given(text, "self.x", "A.f") == "g()"


def test_what_a_parameter_or_a_loop_gives_is_unknown() -> None:
    text = "def f(x):\n    for y in x:\n        use(y)\n"
    assert given(text, "x", "f") == ""
    assert given(text, "y", "f") == ""


def test_any_other_expression_is_itself() -> None:
    assert given("def f(x):\n    use(x)\n", "g(x)", "f") == "g(x)"


def test_a_loop_holds_the_lines_of_its_body() -> None:
    found = outline(ast.parse("for x in y:\n    a = x\n    b = a\nc = b\n"), (), ())
    loop = found.functions[0].loops[0]
    assert [line for line in range(1, 5) if loop.holds(line)] == [1, 2, 3]


def test_a_statement_of_several_lines_still_sees_what_its_name_was_before() -> None:
    text = """
def step(x: "ndarray"):
    x = (
        x.reshape(3)
    )
    asked = x
"""
    assert value_of(text).kind == "array"


def test_the_name_of_a_comprehension_is_its_own() -> None:
    text = """
import torch
def step(x: int, loader):
    asked = [x.sum() for x in [torch.ones(3, device="cuda")]]
    after = x
"""
    assert value_of(text) == Value("list", "device", "tensor")
    assert value_of(text, "after").kind == "number"


def test_an_annotation_that_names_no_tensor_is_believed() -> None:
    text = """
from torch import nn
class Net(nn.Module):
    def forward(self, target: Target, labels: Optional[FloatTensor]):
        asked = target
        other = labels
"""
    assert value_of(text).kind == "unknown"
    assert value_of(text, "other").kind == "tensor"


def test_parts_of_what_a_model_gives_are_tensors() -> None:
    text = """
def step(model, x):
    out = model(x)
    asked = out.loss
    shape = out.shape
"""
    assert value_of(text) == Value("tensor", "device")
    assert value_of(text, "shape").kind == "unknown"


@pytest.mark.parametrize(
    "use",
    [
        "x.unsqueeze(0)",
        "x.size(0)",
        "x.sum(dim=1)",
        "x[1:].to(device)",
        "torch.sum(x)",
        "torch.sum(x, dim=1)",
        "F.mse_loss(target, x)",
        "rearrange(x, 'a b -> b a')",
    ],
)
def test_a_parameter_that_is_used_as_a_tensor_is_one(use: str) -> None:
    text = f"""
import torch
import torch.nn.functional as F
import einops
def step(x, target, device):
    {use.replace("rearrange", "einops.rearrange")}
    asked = x
"""
    assert value_of(text) == Value("tensor", "unknown")


@pytest.mark.parametrize("use", ["x.sum(axis=1)", "torch.tensor(x)", "torch.zeros(x)", "len(x)"])
def test_a_parameter_that_may_be_something_else_is_unknown(use: str) -> None:
    text = f"import torch\ndef step(x):\n    {use}\n    asked = x\n"
    assert value_of(text).kind == "unknown"


def test_what_a_name_stands_for_later_tells_nothing_of_the_parameter() -> None:
    text = """
import torch
def step(x):
    asked = x
    x = torch.as_tensor(x)
    x.unsqueeze(0)
"""
    assert value_of(text).kind == "unknown"


def test_a_parameter_is_what_all_calls_give_it() -> None:
    text = """
import torch
def step(loss, weight):
    asked = loss
def train(model, x):
    step(model(x).cpu(), 1)
    step(weight=2, loss=torch.zeros(3))
"""
    assert value_of(text) == Value("tensor", "host")
    assert value_of(text + "    step(thing, 1)\n").where == "unknown"


def test_what_is_made_beside_a_tensor_lies_where_it_does() -> None:
    text = """
import torch
def step(x, n):
    y = x.cpu()
    asked = torch.zeros(n, device=y.device)
"""
    assert value_of(text) == Value("tensor", "host")


def test_a_parameter_of_a_model_is_a_tensor() -> None:
    text = """
from torch import nn, zeros
def build():
    asked = nn.Parameter(zeros(3))
"""
    assert value_of(text).is_tensor


@pytest.mark.parametrize(
    ("target", "over", "kind"),
    [
        ("step, (asked, y)", "enumerate(loader)", "batch"),
        ("asked, (x, y)", "enumerate(loader)", "number"),
        ("step, asked", "enumerate(loader)", "batch"),
        ("asked, (x, y)", "tqdm(enumerate(loader))", "number"),
        ("step, (asked, y)", "enumerate(tqdm(loader, leave=False))", "batch"),
        ("asked", "tqdm(range(9))", "number"),
        ("asked", "next(iter(loader))[0].keys()", "unknown"),
        ("step, (asked, x)", "enumerate(zip(range(3), loader))", "unknown"),
        ("step, (n, asked)", "enumerate(zip(things, loader))", "batch"),
    ],
)
def test_a_loop_gives_each_of_its_targets_what_stands_there(
    target: str, over: str, kind: str
) -> None:
    found = outline(ast.parse(f"def step(loader):\n  for {target} in {over}:\n    pass"), (), ())
    assert Values(found).of_name("asked", 3, found.functions[1]).kind == kind


def test_an_attribute_that_is_ever_moved_lies_on_the_device() -> None:
    text = """
import torch
class Sampler:
    def draw(self, device):
        self.shares = self.shares.to(device)
        asked = self.shares
    def begin(self):
        self.shares = torch.zeros(3)
"""
    assert value_of(text) == Value("tensor", "device")


def test_batches_of_a_data_set_on_the_device_lie_there() -> None:
    text = """
import torch
from torch.utils.data import DataLoader, TensorDataset
def fit(rows, device):
    loader = DataLoader(TensorDataset(torch.from_numpy(rows).to(device)), batch_size=3)
    asked = next(iter(loader))
"""
    assert value_of(text) == Value("batch", "device")


def test_what_is_drawn_lies_where_its_shares_do() -> None:
    text = """
from torch import bernoulli
def draw(shares):
    asked = bernoulli(shares.table())
"""
    assert value_of(text) == Value("tensor", "unknown")


def test_a_parameter_is_told_by_functions_that_were_imported_by_name() -> None:
    text = """
from torch import cat
def draw(rows):
    joined = cat(rows, 0)
    asked = rows
"""
    assert value_of(text) == Value("tensor", "unknown")


@pytest.mark.parametrize(
    ("drawn", "kind"),
    [
        ("np.random.randint(n)", "number"),
        ("np.random.rand()", "number"),
        ("np.random.randint(0, n, 8)", "array"),
        ("np.random.normal(size=n)", "array"),
        ("np.random.permutation(n)", "array"),
    ],
)
def test_what_is_drawn_without_a_size_is_a_number(drawn: str, kind: str) -> None:
    text = f"import numpy as np\ndef step(n):\n    asked = {drawn}"
    assert value_of(text).kind == kind


@pytest.mark.parametrize(
    ("drawn", "kind"),
    [
        ("rng.randint(9, size=8)", "array"),
        ("self.rng.integers(9)", "number"),
        ("self.sampler.choice(9, 2)", "unknown"),
    ],
)
def test_what_a_generator_draws_is_known_by_its_name(drawn: str, kind: str) -> None:
    assert value_of(f"def step(self, rng):\n    asked = {drawn}").kind == kind


def test_what_is_divided_by_a_number_is_no_number_unless_it_was_one() -> None:
    assert value_of("def step(loss, rows):\n    asked = rows.part / len(rows)") == UNKNOWN
    assert value_of("def step(rows):\n    asked = 1 / len(rows)") == Value("number")


def test_what_keeps_its_name_stays_a_tensor() -> None:
    text = """
import torch
def update(self, labels: torch.Tensor, mask: torch.Tensor):
    labels, mask = self.detached(labels, mask)
    asked = labels
"""
    assert value_of(text) == Value("tensor")
    assert value_of(text.replace("detached", "to_numpy")) == UNKNOWN


def test_none_in_one_branch_tells_nothing_of_the_other() -> None:
    text = """
import torch
def step(x: torch.Tensor, standard):
    if standard:
        spread = torch.std(x)
    else:
        spread = None
    asked = spread
"""
    assert value_of(text) == Value("tensor")


def test_a_function_of_another_file_mostly_gives_tensors_for_tensors() -> None:
    text = """
import torch
from scipy.optimize import linear_sum_assignment
from .masks import lengths_of_mask, num_rows
def step(mask: torch.Tensor):
    asked = lengths_of_mask(mask)
"""
    assert value_of(text) == Value("tensor")
    assert value_of(text.replace("= lengths_of_mask", "= num_rows")) == UNKNOWN
    assert value_of(text.replace("= lengths_of_mask", "= linear_sum_assignment")) == UNKNOWN


def test_a_part_of_a_module_gives_tensors_for_tensors() -> None:
    text = """
from torch import nn
class Net(nn.Module):
    def forward(self, x):
        asked = self.distances(x)
"""
    assert value_of(text) == Value("tensor", "device")


def test_a_loss_in_results_is_a_tensor_and_one_in_settings_is_not() -> None:
    assert value_of("def step(outputs):\n    asked = outputs['loss']") == Value("tensor")
    assert value_of("def step(outputs):\n    asked = outputs.get('loss')") == Value("tensor")
    assert value_of("def step(config):\n    asked = config['loss']") == UNKNOWN


def test_what_a_number_is_read_from_is_a_tensor() -> None:
    text = """
import torch
def right(a, b, count):
    asked = b
    return ((a == b).sum() / count).item() + (a == b).float().mean().item()
"""
    assert value_of(text) == Value("tensor")


def test_an_argument_none_tells_nothing() -> None:
    text = """
import torch
def pooled(x, lengths):
    asked = lengths
    return x.permute(1, 0), lengths.clamp(min=1)

def pooled_alone(x):
    return pooled(x, None)
"""
    assert value_of(text) == Value("tensor")


def test_parts_of_what_a_module_is_given_are_tensors() -> None:
    text = """
from torch import nn
class Net(nn.Module):
    def forward(self, data):
        asked = data.edges
"""
    assert value_of(text) == Value("tensor")


@pytest.mark.parametrize(
    "annotation",
    [
        "Tensor | None",
        "None | Tensor",
        "Union[Tensor, None]",
        "Optional[Tensor]",
        'Float[Tensor, "rows columns"]',
    ],
)
def test_an_annotation_with_something_around_a_tensor_says_a_tensor(annotation: str) -> None:
    assert value_of(f"def step(rows: {annotation}):\n    asked = rows") == Value("tensor")


def test_what_may_be_a_list_as_well_is_no_tensor_by_its_annotation() -> None:
    assert value_of("def step(rows: Union[list, Tensor]):\n    asked = rows") == UNKNOWN


def test_what_a_dict_holds_is_told_by_its_annotation() -> None:
    text = """
def step(kept: Dict[str, Tensor]):
    for name, each in kept.items():
        asked = each
"""
    assert value_of(text) == Value("tensor")
    assert value_of("def step(kept: dict[str, Tensor]):\n    asked = kept['x']") == Value("tensor")
    text = "def step(kept: dict[str, Tensor]):\n    for name in kept:\n        asked = name"
    assert value_of(text) == UNKNOWN


def test_what_a_function_gives_and_what_a_name_holds_are_told_by_annotations() -> None:
    text = """
def step(things):
    asked = chosen(things)
def chosen(things) -> Tensor:
    return things.best
"""
    assert value_of(text) == Value("tensor")
    text = "def step(things):\n    best: Tensor = things.best()\n    asked = best"
    assert value_of(text) == Value("tensor")


def test_where_it_is_asked_whether_it_is_a_tensor_it_is_one() -> None:
    text = """
def step(value):
    if isinstance(value, torch.Tensor):
        asked = value
"""
    assert value_of(text) == Value("tensor")
    assert value_of(text.replace("asked", "_ = 0\n    asked")) == UNKNOWN
    assert value_of(text.replace("asked", "value = 1\n        asked")) == Value("number")
    text = "def step(value):\n    asked = [value if torch.is_tensor(value) else 0]"
    assert value_of(text) == Value("list", "unknown", "tensor")


def test_objects_of_classes_of_the_file_hold_what_these_say() -> None:
    text = """
def step(made: Made):
    asked = made.scores
class Base:
    def __init__(self):
        self.rows = torch.zeros(3, device="cuda")
    @property
    def halves(self):
        return self.rows / 2
class Made(Base):
    scores: Tensor
    def best(self):
        return self.halves.max()
"""
    assert value_of(text) == Value("tensor")
    assert value_of(text.replace("made.scores", "made.best()")) == Value("tensor", "device")
    assert value_of(text.replace("made.scores", "made.rows")) == Value("tensor", "device")
    assert value_of(text.replace("made.scores", "made.nothing")) == UNKNOWN


@pytest.mark.parametrize(
    ("call", "is_loader"),
    [
        ("self._make_data_loader(data)", True),
        ("data.train_dataloader()", True),
        ("build_loader(config)", True),
        ("AnnotatedDataLoader(rows)", True),
        ("self.loader(path)", False),
        ("image_loader(path)", False),
    ],
)
def test_functions_that_make_loaders_are_told_by_their_names(call: str, is_loader: bool) -> None:
    found = value_of(f"def step(self, data, config, rows, path):\n    asked = {call}")
    assert (found.kind == "loader") == is_loader


def test_what_a_function_of_the_file_returns_is_unpacked_part_by_part() -> None:
    text = """
def step(x):
    {} = embedded(x)
def embedded(x):
    x = torch.exp(x)
    return x, x.size(0), (x, "name")
"""
    inner = text.replace("embedded(x)\ndef", "embedded(x)\n    asked = rest\ndef")
    assert value_of(inner.format("rest, _, _")) == Value("tensor")
    assert value_of(inner.format("_, rest, _")) == Value("number")
    assert value_of(inner.format("_, _, (_, rest)")) == Value("text")


def test_counts_and_dicts_among_what_a_model_gives_are_told_by_their_names() -> None:
    text = """
def step(model, x):
    rows, batch_size = model(x)
    loss_dict = model(x)
    asked = {}
"""
    assert value_of(text.format("rows")) == Value("tensor", "device")
    assert value_of(text.format("batch_size")) == Value("number")
    assert value_of(text.format("loss_dict")) == Value("dict", "device", "tensor")
    assert value_of(text.format("[name for name in loss_dict]")) == Value("list")


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("self.compute_losses(batch)", Value("tensor", "unknown")),
        ("self.train_one(batch)", UNKNOWN),
        ("helper.safe_to_tensor(np.zeros(3))", Value("tensor", "host")),
        ("helper.to_tensor(np.zeros(3), device=self.device)", Value("tensor", "device")),
        ("packed.batch_sizes", Value("tensor", "host")),
        ("labels.to(self.device)", Value("tensor", "device")),
        ("self.get_model(labels)", UNKNOWN),
        ("self.table", Value("tensor", "unknown")),
    ],
)
def test_names_of_functions_and_parts_tell_what_nothing_else_does(given: str, value: Value) -> None:
    text = f"""
import numpy as np
import torch
import helper
class Step(Base):
    def run(self, batch):
        rows, labels = batch
        other_loss = {given}
        asked = other_loss
    def __init__(self):
        self.register_buffer("table", torch.zeros(3))
"""
    assert value_of(text) == value


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_functions_that_call_each_other_are_the_same_in_any_order(order: tuple[str, str]) -> None:
    text = """
import torch
def even(n, x):
    return odd(n, x) if n else torch.zeros(3, device="cuda")
def odd(n, x):
    return even(n - 1, x)
def step(x):
    first = even(3, x)
    second = odd(3, x)
"""
    found = outline(ast.parse(text), (), ())
    values, function = Values(found), found.functions[-1]
    for name in order:
        binding = function.bindings[name][-1]
        assert values.of(binding.value, function) == Value("tensor", "device")
