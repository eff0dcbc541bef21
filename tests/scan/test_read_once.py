"""Numbers that a loop reads in every step: where they are read once after it, and where not."""

import ast
from collections.abc import Mapping, Sequence

import pytest
import torch
from torch import nn

from hasten.records.scan import CodeFinding, Safety
from hasten.scan.analysis import analyse
from hasten.scan.fixing import Fixed, fix_texts
from hasten.scan.link import Tree
from hasten.scan.looking import Rules
from hasten.scan.registry import all_rules

PATH = "train.py"
ITEM = {rule.code: rule for rule in all_rules() if rule.code in ("HST201", "HST203")}


def look(changed: Mapping[str, str]) -> Sequence[CodeFinding]:
    analyses = {path: analyse(text, Rules.of(ITEM.values())) for path, text in changed.items()}
    return Tree(analyses).findings(ITEM)


def fixed(text: str) -> Fixed:
    texts = {PATH: text}
    return fix_texts(texts, look(texts), look, unsafe=True)


def loop(inside: str, *, before: str = "total = 0.0", after: str = "return total / 3") -> str:
    """A training in a file that says itself which device it runs on."""
    lines = ["    " * 2 + line for line in inside.splitlines()]
    return "\n".join(
        [
            "import torch",
            "",
            "device = torch.device('cuda')",
            "scale = torch.ones(3, device=device)",
            "",
            "def train(model, loader, optimizer):",
            *("    " + line for line in before.splitlines()),
            "    for x, y in loader:",
            "        loss = model(x, y)",
            "        loss.backward()",
            "        optimizer.step()",
            *lines,
            *("    " + line for line in after.splitlines()),
            "",
        ]
    )


def safeties(text: str) -> set[Safety]:
    return {each.fix.safety for each in look({PATH: text}) if each.fix is not None}


@pytest.mark.parametrize(
    ("inside", "becomes"),
    [
        ("total += loss.item()", "total += loss.detach().double()"),
        ("total += loss.item() * len(x)", "total += loss.detach().double() * len(x)"),
        ("total += x.size(0) * loss.item()", "total += x.size(0) * loss.detach().double()"),
        (
            "total += 2 * (loss.item() * x.shape[0])",
            "total += 2 * (loss.detach().double() * x.shape[0])",
        ),
        ("total += loss.detach().cpu().item()", "total += loss.detach().double()"),
        ("total += (loss / 2).item()", "total += (loss / 2).detach().double()"),
        (
            "with torch.no_grad():\n    total += loss.item()",
            "with torch.no_grad():\n    total += loss.double()",
        ),
    ],
)
def test_a_sum_of_floats_is_kept_in_double(inside: str, becomes: str) -> None:
    (text,) = fixed(loop(inside)).texts.values()
    assert text == loop(becomes, after="total = float(total)\nreturn total / 3")
    assert not look({PATH: text})
    assert safeties(loop(inside)) == {"safe"}


def test_a_count_is_kept_whole() -> None:
    before = loop(
        "right += (model(x).argmax(1) == y).sum().item()", before="right = 0", after="return right"
    )
    (text,) = fixed(before).texts.values()
    assert text == loop(
        "right += (model(x).argmax(1) == y).sum()",
        before="right = 0",
        after="right = int(right)\nreturn right",
    )


COUNTED = "right += (model(x).argmax(1) == y).sum().item() * {}"


@pytest.mark.parametrize("factor", ["2", "len(x)", "x.size(0)", "x.shape[0]", "2 * len(x)"])
def test_a_count_times_a_whole_number_is_whole(factor: str) -> None:
    text = loop(COUNTED.format(factor), before="right = 0", after="return right")
    (after,) = fixed(text).texts.values()
    assert f".sum() * {factor}\n    right = int(right)" in after


@pytest.mark.parametrize("factor", ["0.5", "share", "2 * 0.5", "len(x) * share"])
@pytest.mark.parametrize("is_typed", [False, True])
def test_a_count_times_a_fraction_is_not_cut(factor: str, is_typed: bool) -> None:
    inside = f"x = x.to(device)\n{COUNTED.format(factor)}"
    text = loop(inside, before="right = 0\nshare = 0.25", after="return right")
    text = typed(text) if is_typed else text
    assert look({PATH: text})
    assert fixed(text).texts == {}


def test_all_waits_of_a_loop_are_removed_or_none() -> None:
    before, after = "total = 0\nlosses = []", "return total, losses"
    inside = "total += loss.item()\nlosses.append(loss.item())"
    (text,) = fixed(loop(inside, before=before, after=after)).texts.values()
    assert "losses_on_device.append(loss.detach().clone())" in text
    assert "total += loss.detach().double()" in text
    asks = "if torch.isnan(loss):\n    break\n"
    assert fixed(loop(asks + inside, before=before, after=after)).texts == {}


def test_a_sum_of_two_losses_is_read_once() -> None:
    (text,) = fixed(loop("total += loss.item()\ntotal += loss.item() * 2")).texts.values()
    assert text.count("total = float(total)") == 1


@pytest.mark.parametrize(
    ("inside", "before", "after"),
    [
        ("total += loss.item()\nprint(total)", "total = 0.0", ""),
        ("total += loss.item()\nif total > 3:\n    break", "total = 0.0", ""),
        ("total = total + loss.item()", "total = 0.0", "return total"),
        ("total -= loss.item()", "total = 0.0", "return total"),
        ("total += loss.item() / n", "total = 0.0\nn = 3", "return total"),
        ("total += loss.item() + loss.item()", "total = 0.0", "return total"),
        ("total += loss.item() * unknown", "total = 0.0", "return total"),
        ("total = 0.0\ntotal += loss.item()", "total = 0.0", "return total"),
        ("total += loss.item()", "total = start()", "return total"),
        ("total += x.mean().item()", "total = 0", "return total"),
        ("total += loss.item()", "total = 0.0\ndef show():\n    print(total)", "return total"),
        ("total += loss.item()", "global total\ntotal = 0.0", ""),
        ("total += loss.item()", "total = 0.0\nprint(locals())", "return total"),
        ("self.total += loss.item()", "total = 0.0", "return total"),
        ("sums['a'] += loss.item()", "sums = {'a': 0.0}", "return sums"),
        ("total += sum(each.item() for each in loss)", "total = 0.0", "return total"),
        ("losses.append(loss.item())\nlosses.sort()", "losses = []", "return losses"),
        ("losses.append(loss.item())\nbest = min(losses)", "losses = []", "return losses"),
        ("losses.append(loss.item())\nprint(f'{losses[-1]}')", "losses = []", "return losses"),
        ("losses.append(loss.item())", "losses = [1.0]", "return losses"),
        ("losses.append(x.argmax().item())", "losses = []", "return losses"),
        ("losses.append(2 * loss.item())", "losses = []", "return losses"),
        ("losses.append(loss.item())\nother = losses", "losses = []", "return losses"),
        ("losses.append(loss.item())", "losses = []\nseen = losses", "return losses"),
        ("losses.append(loss.item())", "losses = []\nmodel.told = [losses]", "return losses"),
        ("losses.append(loss.item())", "losses = []\nlogger.watch(losses)", "return losses"),
        ("losses.append(loss.item())", "model.losses = losses = []", "return losses"),
        ("losses.append(loss.item())", "losses = other = []", "return losses"),
        ("losses.append(loss.item())", "logger.watch(losses := [])", "return losses"),
        ("losses.append(loss.item())", "losses = []\nadd = losses.append", "return losses"),
        ("losses.append(loss.item())", "losses = []\nmodel.on(losses.append)", "return losses"),
        ("losses.append(loss.item())\nlosses.append('x')", "losses = []", "return losses"),
        ("losses.append(loss.item())", "losses = []\nlosses_on_device = 0", "return losses"),
        ("losses.append(loss.item())\nif x:\n    return losses", "losses = []", "return losses"),
    ],
)  # fmt: skip
def test_what_could_be_seen_is_not_fixed(inside: str, before: str, after: str) -> None:
    text = loop(inside, before=before, after=after)
    ast.parse(text)
    assert look({PATH: text}), "nothing is found here at all"
    assert fixed(text).texts == {}


@pytest.mark.parametrize(
    "around",
    [
        "try:\n{}\nexcept KeyboardInterrupt:\n    pass",
        "try:\n{}\nfinally:\n    print(total)",
        "with suppress(ValueError):\n{}",
    ],
)
def test_a_loop_that_an_error_may_leave_is_not_fixed(around: str) -> None:
    lines = loop("total += loss.item()", after="").splitlines()
    start = lines.index("    total = 0.0") + 1
    inner = "\n".join("    " + line[4:] for line in lines[start:] if line.strip())
    body = around.format(inner).splitlines()
    text = "\n".join([*lines[:start], *("    " + line for line in body), "    return total", ""])
    ast.parse(text)
    assert look({PATH: text})
    assert fixed(text).texts == {}


CHOSEN = "torch.device('cuda')"


@pytest.mark.parametrize(
    ("device", "safety"),
    [
        ("torch.device('cuda' if torch.cuda.is_available() else 'cpu')", "safe"),
        ("'cuda:1'", "safe"),
        ("f'cuda:{number}'", "safe"),
        ("'cuda:%d' % number", "safe"),
        ("torch.device('cpu')", "unsafe"),
        ("torch.device('cuda' if torch.cuda.is_available() else 'mps')", "unsafe"),
        ("torch.device(args.device)", "unsafe"),
        ("args.device", "unsafe"),
        ("best_device()", "unsafe"),
        ("None", "unsafe"),
    ],
)
def test_a_device_that_may_lack_double_makes_it_unsafe(device: str, safety: Safety) -> None:
    assert safeties(loop("total += loss.item()").replace(CHOSEN, device)) == {safety}


@pytest.mark.parametrize(
    ("body", "safety"),
    [
        ("model.cuda()", "safe"),
        ("if flags.cuda:\n    model.cuda()", "safe"),
        ("its_device = next(model.parameters()).device\nmodel.to(its_device)", "safe"),
        ("its_device = model.settings.device\nmodel.to(its_device)", "unsafe"),
        ("def move(model, device):\n    model.to(device)", "unsafe"),
        ("def move(model, device='cuda'):\n    model.to(device)", "unsafe"),
        ("model.to(flags.device)", "unsafe"),
        ("device = 'cuda'\nif flags.mac:\n    device = best()\nmodel.to(device)", "unsafe"),
        ("class Net:\n    def move(self, x):\n        return x.to(self.device)", "unsafe"),
    ],
)
def test_all_devices_of_a_file_count(body: str, safety: Safety) -> None:
    assert safeties(f"{loop('total += loss.item()')}\n{body}\n") == {safety}


def test_an_attribute_tells_by_all_that_it_is_given() -> None:
    text = """\
import torch

class Trainer:
    def __init__(self, loader):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"

    def train(self, model, loader, optimizer):
        total = 0.0
        for x, y in loader:
            loss = model(x.to(self.device), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total
"""
    assert safeties(text) == {"safe"}
    given = text + "\n    def on(self, device):\n        self.device = device\n"
    assert safeties(given) == {"unsafe"}


@pytest.mark.parametrize(
    "head",
    [
        "loss = torch.tensor(0.0)\nif x is not None:\n    loss = model(x, y)",
        "loss = model(x, y) if x is not None else torch.zeros(())",
        "k = len(y) % 2\nloss = model(x.to(f'cuda:{k}'), y)",
        "k = len(y) % 2\ndevice = devices[k]\nloss = model(x.to(device), y)",
        "for k in range(2):\n    loss = model[k](x.cuda(k), y)",
        "loss = model(x.to('cuda:0'), y) + model(x.to('cuda:1'), y).to('cuda:0')",
    ],
)
def test_a_sum_over_several_devices_is_not_fixed(head: str) -> None:
    head = head.replace("\n", "\n        ")
    text = loop("total += loss.item()").replace("loss = model(x, y)", head)
    ast.parse(text)
    assert look({PATH: text}), "nothing is found here at all"
    assert fixed(text).texts == {}


def test_sums_of_losses_on_two_devices_are_not_fixed() -> None:
    text = loop("total += loss.item()\ntotal += other_loss.item()")
    other = "loss = model(x, y)\n        other_loss = model(x)"
    assert fixed(text.replace("loss = model(x, y)", other)).texts
    on_host = other + ".cpu()"
    assert fixed(text.replace("loss = model(x, y)", on_host)).texts == {}


@pytest.mark.parametrize(
    "head",
    [
        "x = x.to(device)\nloss = model(x, y)",
        "x = x.to(torch.device(f'cuda:{device}'))\nloss = model(x, y)",
        "loss = model(x, y)\nloss = loss + torch.tensor(1.0)",
        "loss = model(x, y)\nloss = loss.mean() / 2",
        "loss = model(x, y).to(x.device)",
        "loss = model(x, y.to(x))",
        "where = x.device\nloss = model(x, y.to(where))",
    ],
)
def test_a_sum_on_one_device_is_fixed(head: str) -> None:
    head = head.replace("\n", "\n        ")
    text = loop("total += loss.item()").replace("loss = model(x, y)", head)
    assert safeties(text) == {"safe"}


@pytest.mark.parametrize(
    "clock",
    [
        "time.time()", "time.perf_counter()", "time.monotonic()", "time.process_time()", "now()",
        "datetime.now()", "datetime.datetime.now()", "timeit.default_timer()", "perf_counter()",
        "begin.elapsed_time(end)",
    ],
)  # fmt: skip
def test_a_loop_that_reads_a_clock_makes_it_unsafe(clock: str) -> None:
    imports = (
        "import datetime, time, timeit\nfrom time import perf_counter\n\n"
        "def now():\n    return time.time()\n\n"
    )
    text = imports + loop(f"total += loss.item()\nprint({clock})")
    assert safeties(text) == {"unsafe"}
    assert safeties(text.replace(f"print({clock})", "print(x)")) == {"safe"}
    after_it = imports + loop("total += loss.item()", after=f"return total, {clock}")
    assert safeties(after_it) == {"safe"}


def test_a_list_without_end_is_unsafe() -> None:
    text = loop("losses.append(loss.item())", before="losses = []", after="return losses")
    assert safeties(text) == {"safe"}
    for over in (
        "range(y)", "itertools.count()", "tqdm.trange(10**7)", "np.arange(n)", "cycle(loader)",
        "itertools.repeat(x)", "enumerate(itertools.cycle(loader))",
    ):  # fmt: skip
        assert safeties(text.replace("x, y in loader", f"step in {over}")) == {"unsafe"}


FOREVER = """\
def forever(loader):
    while True:
        yield from loader

"""


@pytest.mark.parametrize("over", ["forever(loader)", "enumerate(forever(loader))", "batches"])
def test_a_list_of_a_loop_over_a_generator_without_end_is_unsafe(over: str) -> None:
    before = "batches = forever(loader)\nlosses = []"
    text = loop("losses.append(loss.item())", before=before, after="return losses")
    text = FOREVER + text.replace("x, y in loader", f"x, y in {over}")
    assert safeties(text) == {"unsafe"}
    assert safeties(text.replace("while True", "for _ in loader")) == {"safe"}


REPEATED = """\
import torch

def update(model, data, optimizer, repeat):
    losses = []
    for step in range(repeat):
        for minibatch in data.split(64):
            loss = model(minibatch).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
"""


def test_the_name_of_what_counts_repeats_makes_no_difference() -> None:
    (named,) = fixed(REPEATED).texts.values()
    (nameless,) = fixed(REPEATED.replace("step in", "_ in")).texts.values()
    assert named.replace("step in", "_ in") == nameless
    assert safeties(REPEATED) == safeties(REPEATED.replace("step in", "_ in")) == {"safe"}


def list_loop(inside: str, *, before: str = "losses = []", head: str = "") -> str:
    text = loop(inside, before=before, after="return losses")
    return text.replace("loss = model(x, y)", head) if head else text


ONE_BY_ONE = "losses.extend([float(each) for each in losses_on_device])"
AT_ONCE = "if losses_on_device:\n    losses += torch.stack(losses_on_device).tolist()"
LOSS = "loss = torch.nn.functional.mse_loss(model(x), y)"


@pytest.mark.parametrize(
    ("head", "inside", "kept"),
    [
        (LOSS, "", "loss.detach()"),
        (LOSS, "scaler.scale(loss).backward()", "loss.detach()"),
        (LOSS, "if x % 9 == 0:\n    print(f'{loss:.3f}')", "loss.detach()"),
        (LOSS, "total += loss.detach() / 2", "loss.detach()"),
        ("loss = model(x, y) + 1", "", "loss.detach()"),
        ("loss = model(x, y).mean()", "", "loss.detach()"),
        ("loss = -(model(x) * y).mean()", "", "loss.detach()"),
        ("loss = +model(x, y)", "", "loss.detach().clone()"),
        ("loss = model(x, y)", "", "loss.detach().clone()"),
        ("loss = criterion(model(x), y)", "", "loss.detach().clone()"),
        (LOSS + "\n        loss /= 2", "", "loss.detach().clone()"),
        (LOSS, "loss.mul_(2)", "loss.detach().clone()"),
        (LOSS, "loss.data += 1", "loss.detach().clone()"),
        (LOSS, "loss.detach().div_(2)", "loss.detach().clone()"),
        (LOSS, "torch.distributed.all_reduce(loss)", "loss.detach().clone()"),
        (LOSS, "reduce(loss)", "loss.detach().clone()"),
        (LOSS, "told = loss", "loss.detach().clone()"),
        (LOSS, "graph = torch.cuda.CUDAGraph()", "loss.detach().clone()"),
    ],
)
def test_only_a_tensor_that_may_change_is_copied(head: str, inside: str, kept: str) -> None:
    text = list_loop(f"losses.append(loss.item())\n{inside}", head=head)
    (after,) = fixed(text).texts.values()
    assert f"losses_on_device.append({kept})\n" in after
    assert not look({PATH: after})


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        ("nn.MSELoss()", "loss.detach()"),
        ("nn.Sequential()", "loss.detach().clone()"),
    ],
)
def test_a_loss_of_torch_gives_a_new_tensor(made: str, kept: str) -> None:
    text = list_loop(
        "losses.append(loss.item())",
        before=f"criterion = {made}\nlosses = []",
        head="loss = criterion(model(x), y)",
    ).replace("import torch\n", "import torch\nfrom torch import nn\n")
    (after,) = fixed(text).texts.values()
    assert f"losses_on_device.append({kept})\n" in after


def test_a_list_is_filled_after_the_loop() -> None:
    (text,) = fixed(list_loop("losses.append(loss.item())", head=LOSS)).texts.values()
    assert text == loop(
        "losses_on_device.append(loss.detach())",
        before="losses = []\nlosses_on_device = []",
        after=f"{AT_ONCE}\nreturn losses",
    ).replace("loss = model(x, y)", LOSS)


@pytest.mark.parametrize(
    "head",
    [
        "loss = model(x, y)",
        "loss = torch.sum(model(x), 0)",
        LOSS.replace("y)", "y, reduction='none')"),
        LOSS + "\n        if len(x) > 3:\n            loss = model(x).reshape(1)",
        "for k in range(2):\n            loss = torch.sum(model[k](x.cuda(k), y))",
    ],
)
def test_a_list_is_read_one_by_one_where_it_may_be_no_row_of_numbers(head: str) -> None:
    (text,) = fixed(list_loop("losses.append(loss.item())", head=head)).texts.values()
    assert ONE_BY_ONE in text


def test_a_list_is_read_at_once_by_the_name_that_torch_has() -> None:
    text = list_loop("losses.append(loss.item())", head="loss = model(x).mean()")
    (named,) = fixed(text.replace("import torch", "import torch as th")).texts.values()
    assert "losses += th.stack(losses_on_device).tolist()" in named
    (nameless,) = fixed(text.replace("import torch", "from torch import nn")).texts.values()
    assert ONE_BY_ONE in nameless


def test_what_is_asked_of_a_list_is_asked_of_the_other_one() -> None:
    inside = """\
losses.append(loss.item())
if len(losses) % 100 == 0:
    print(f"{len(losses)}: {losses[-1]:.3f}, {losses[-1]:.5f}")
if len(losses) == 1000:
    break"""
    text = list_loop(inside, before="losses: List[float] = []", head=LOSS)
    (after,) = fixed(text).texts.values()
    renamed = inside.replace("losses", "losses_on_device").replace("loss.item()", "loss.detach()")
    renamed = renamed.replace("losses_on_device[-1]", "float(losses_on_device[-1])")
    assert after == loop(
        renamed,
        before="losses: List[float] = []\nlosses_on_device: List[torch.Tensor] = []",
        after=f"{AT_ONCE}\nreturn losses",
    ).replace("loss = model(x, y)", LOSS)


@pytest.mark.parametrize(
    "before", ["losses = []\nlosses.append(1.0)", "losses = []\nprint(losses)"]
)
def test_a_list_that_is_looked_at_and_not_empty_is_left_to_its_owner(before: str) -> None:
    text = list_loop("losses.append(loss.item())\nprint(len(losses))", before=before)
    (found,) = look({PATH: text})
    assert found.fix is not None
    assert found.fix.safety == "display"
    assert fixed(text).texts == {}


def test_a_name_in_a_text_and_in_an_f_string_is_not_guessed() -> None:
    inside = "losses.append(loss.item())\nif x % 9 == 0:\n    print(f'losses {losses[-1]:.1f}')"
    assert fixed(list_loop(inside)).texts == {}


def typed(text: str) -> str:
    return text.replace("optimizer):", "optimizer) -> float:")


@pytest.mark.parametrize(
    ("head", "one"),
    [
        (LOSS, ""),
        (LOSS + " / 2", ""),
        ("loss = torch.sum(x)", ""),
        ("loss = torch.sum(x, 0)", ".sum()"),
        (LOSS.replace("y)", "y, reduction='none')"), ".sum()"),
        ("loss: torch.Tensor = model(x, y)", ".sum()"),
    ],
)
def test_a_sum_that_is_typed_is_added_up_beside_it(head: str, one: str) -> None:
    sent = f"x = x.to(device)\n        {head}"
    text = typed(loop("total += loss.item()")).replace("loss = model(x, y)", sent)
    (after,) = fixed(text).texts.values()
    made = "total_on_device = torch.tensor(total, dtype=torch.float64, device=device)"
    assert after == typed(
        loop(
            f"total_on_device += loss.detach(){one}",
            before=f"total = 0.0\n{made}",
            after="total = float(total_on_device)\nreturn total / 3",
        )
    ).replace("loss = model(x, y)", sent)
    assert safeties(text) == {"unsafe"}
    assert not look({PATH: after})


@pytest.mark.parametrize(
    ("before", "head"),
    [
        ("total: float = 0.0", LOSS),
        ("total = 0.0", LOSS.replace("loss =", "loss: torch.Tensor =")),
        ("total = 0.0\nloss: torch.Tensor", "loss = model(x, y)"),
    ],
)
def test_annotations_of_names_make_a_function_a_typed_one(before: str, head: str) -> None:
    sent = f"x = x.to(device)\n        {head}"
    text = loop("total += loss.item()", before=before).replace("loss = model(x, y)", sent)
    (after,) = fixed(text).texts.values()
    assert "total_on_device += loss.detach()" in after


def test_a_typed_product_is_made_in_double_and_a_typed_count_is_whole() -> None:
    head = f"x = x.to(device)\n        {LOSS}"
    inside = "total += loss.item() * len(x)\nright += torch.eq(x, y).sum().item()"
    text = typed(loop(inside, before="total = 0.0\nright = 0")).replace("loss = model(x, y)", head)
    (after,) = fixed(text).texts.values()
    assert "total_on_device += loss.detach().double() * len(x)" in after
    assert "right_on_device = torch.tensor(right, dtype=torch.int64, device=device)" in after
    assert "right_on_device += torch.eq(x, y).sum()" in after
    assert "right = int(right_on_device)" in after


def test_a_typed_sum_without_a_device_is_left_to_its_owner() -> None:
    text = typed(loop("total += loss.item()")).replace("loss = model(x, y)", LOSS)
    assert safeties(text) == {"display"}
    assert fixed(text).texts == {}


def test_what_a_module_gives_is_nothing_to_a_type_checker() -> None:
    (after,) = fixed(typed(loop("total += loss.item()"))).texts.values()
    assert "total += loss.detach().double()" in after


@pytest.mark.parametrize(
    "head",
    [
        "loss: Any = model(x, y)",
        "def told():\n            loss: torch.Tensor = x\n        loss = model(x, y)",
    ],
)
def test_only_an_annotation_of_its_own_that_says_so_makes_a_tensor(head: str) -> None:
    text = typed(loop("total += loss.item()")).replace("loss = model(x, y)", head)
    (after,) = fixed(text).texts.values()
    assert "total += loss.detach().double()" in after


def test_lines_stand_in_the_order_of_the_code_and_comments_with_what_they_are_on() -> None:
    text = loop(
        "b += loss.item()\na += loss.item()\nlosses.append(loss.item())\n# the last words",
        before="a = b = 0.0\nlosses = []\n# goes over the data\n# once",
        after="return a, b, losses",
    )
    (after,) = fixed(text).texts.values()
    assert "losses = []\n    losses_on_device = []\n    # goes over the data\n    # once\n" in after
    assert (
        "        # the last words\n"
        "    b = float(b)\n    a = float(a)\n    losses.extend([float(each)" in after
    )


TRAINING = """\
import torch

def train(model, loader, optimizer, epochs, device="cuda"):
    told = []
    kept = []
    total = 0
    for epoch in range(epochs):
        epoch_loss = 0.0
        right = 0
        for x, y in loader:
            optimizer.zero_grad()
            out = model(x)
            loss = torch.nn.functional.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            epoch_loss += loss.item() * len(x)
            total += loss.item()
            right += (out.argmax(1) == y).sum().item()
            kept.append(loss.item())
            loss.data.mul_(0)
        told.append((epoch_loss / len(loader), right, kept[-1]))
    return told, total, kept
"""


def run(text: str, batches: int, epochs: int) -> tuple[object, ...]:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    loader = [(torch.randn(n + 1, 4), torch.randint(3, (n + 1,))) for n in range(batches)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    names: dict[str, object] = {}
    exec(compile(text, PATH, "exec"), names)
    train = names["train"]
    assert callable(train)
    return train(model, loader, optimizer, epochs)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("batches", "epochs"), [(1, 1), (7, 3), (3, 0)])
def test_the_same_numbers_come_of_it_to_the_bit(batches: int, epochs: int) -> None:
    found = fixed(TRAINING)
    assert len(found.findings) == 4
    (after,) = found.texts.values()
    assert ".item()" not in after
    assert repr(run(after, batches, epochs)) == repr(run(TRAINING, batches, epochs))


def test_losses_of_one_element_are_read_as_item_reads_them() -> None:
    text = """\
import torch

def train(model, loader, optimizer, epochs, device: str = "cuda"):
    losses = []
    total = 0.0
    shown = []
    for step, (x, y) in enumerate(loader):
        loss: torch.Tensor = torch.nn.functional.cross_entropy(model(x), y).reshape(1)
        loss.backward()
        optimizer.step()
        x = x.to(device)
        losses.append(loss.item())
        total += loss.item()
        if step % 100 == 0:
            shown.append(f"{losses[-1]:.3f}")
    return losses, total, shown
""".replace('"cuda"', '"cpu"')
    (after,) = fixed(text).texts.values()
    assert ".item()" not in after
    assert "{float(losses_on_device[-1]):.3f}" in after
    assert repr(run(after, 4, 1)) == repr(run(text, 4, 1))


def test_sums_of_two_tensors_have_no_dims() -> None:
    inside = "total += loss.item()\ntotal += other_loss.item()"
    head = f"{LOSS}\n        other_loss = model(x)"
    (after,) = fixed(loop(inside).replace("loss = model(x, y)", head)).texts.values()
    assert "total += loss.detach().double()\n" in after
    assert "total += other_loss.detach().sum().double()\n" in after


@pytest.mark.parametrize("shown", ["losses[-1]=:.3f", "losses[ -1]:.3f"])
def test_a_list_that_is_shown_by_its_name_is_not_fixed(shown: str) -> None:
    inside = f"losses.append(loss.item())\nif x % 99 == 0:\n    print(f'{{{shown}}}')"
    assert fixed(list_loop(inside)).texts == {}


LEAVING = """\
import torch

def train(model, loader, optimizer, epochs, device="cuda"):
    losses = []
    total = 0.0
    for epoch in range(epochs):
        for step, (x, y) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            {leaves}
            losses.append(loss.item())
            total += loss.item()
        else:
            total += 1000.0
    return losses, total
"""


@pytest.mark.parametrize(
    "leaves",
    [
        "pass",
        "if step == 2: break",
        "if step == 1: continue",
        "if epoch == 1: return 'at once'",
        "while True: break",
        "for _ in range(3): continue",
        "optimizer.zero_grad()",
    ],
)
@pytest.mark.parametrize("batches", [0, 1, 4])
def test_a_loop_may_be_left_in_any_way(leaves: str, batches: int) -> None:
    text = LEAVING.format(leaves=leaves).replace("        else:\n            total += 1000.0\n", "")
    (after,) = fixed(text).texts.values()
    assert ".item()" not in after
    assert repr(run(after, batches, 3)) == repr(run(text, batches, 3))


def test_what_the_end_of_a_loop_adds_is_no_read() -> None:
    assert fixed(LEAVING.format(leaves="pass")).texts == {}


def test_a_loop_without_end_is_left_by_break() -> None:
    text = """\
import torch

def train(model, loader, optimizer, epochs, device="cuda"):
    losses = []
    batches = iter(loader)
    while True:
        x, y = next(batches, (None, None))
        if x is None:
            break
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) == epochs:
            break
    return losses
"""
    (after,) = fixed(text).texts.values()
    assert safeties(text) == {"unsafe"}
    assert "losses += torch.stack(" in after
    for batches, epochs in ((0, 1), (2, 1), (3, 9)):
        assert repr(run(after, batches, epochs)) == repr(run(text, batches, epochs))
