"""How often does a line run? Once, every epoch, every step, or for each element of a step.

Loops of a function tell by what they go over and by what they do. A function that no loop of its
own makes hot may be called from one that is: that is found when files are linked (scan.link), so
each place carries what its own function says, and the function's heat is added later.
"""

import ast
import re
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

from hasten.scan.nodes import parts_of
from hasten.scan.outline import COMPREHENSIONS, STEPS, Class, Function, Loop, Outline, Site
from hasten.scan.trace import last_name
from hasten.scan.values import Values
from hasten.scan.vocabulary import OPTIMIZERS as OPTIMIZER_NAMES
from hasten.scan.vocabulary import is_tensor_parameter, words


class Heat(IntEnum):
    ONCE = 0
    EPOCH = 1
    STEP = 2
    ELEMENT = 3
    """More than once in a step: for each sample, moment, member or column."""


@dataclass(frozen=True, slots=True)
class Local:
    """What the loops of the place's own function say."""

    known: Heat = Heat.ONCE
    """What the loops that are understood amount to."""
    inner: int = 0
    """Loops inside of these that go over many other things."""

    def within(self, function: Heat) -> Heat:
        """Where the function runs as often as that."""
        outer = max(function, self.known)
        if outer < Heat.STEP or not self.inner:
            return outer
        return Heat.ELEMENT


OUTSIDE = Local()

EPOCHS = re.compile(r"epoch|(^|_)ep(s)?$|n_iter_no_change|rounds?$")
STEP_WORDS = re.compile(
    r"(^|_)(step|steps|iter|iters|iteration|iterations|num_steps|max_steps|train_num_steps)s?$"
)
BATCH = re.compile(
    r"(^|_)(mini_?)?batch$|^batch(ed)?_(data|dict|x|inputs|idx|index|id|i|num|number|no)$|^i_?batch$"
)
STEPPED = re.compile("env|optim")
"""What is called that has a ``step`` for each of a loop's."""
OF_LOADERS = re.compile(r"(data)?loader|_dl$|^dl$|batches$|minibatches|data_?iter")
FEW = re.compile(
    r"layers?$|blocks?$|modules?$|stages?|convs?$|children|parameters|param_groups|optimizers?$"
    r"|schedulers?$|keys$|metrics?|callbacks?$|heads?$|losses$|loss_|tasks?$|levels?$|scales?$"
    r"|^(n_|num_)?depths?$"
)
"""What there are a handful of in a model: going over these makes a line no hotter."""

STEP_NAMES = re.compile(
    r"^_*(shared|common|train(ing)?|val(id(ation)?)?|test|eval(uation)?|predict(ion)?|inference"
    r"|generator|discriminator|critic|actor|optimi[sz](e|er|ation)|learn(ing)?|gradient|single|one)"
    r"(_one)?_(step|batch|minibatch)(_(with|for|on)_\w+)?$"
)
"""How functions are called that do a step, or its part."""
STEP_FUNCTIONS = words(
    "training_step validation_step test_step predict_step train_step eval_step train_batch"
    " validate_step optimize_parameters compute_loss forward_backward train_on_batch step_fn"
    " on_train_batch_end on_train_batch_start on_batch_end on_batch_begin on_step_end"
    " training_step_end on_validation_batch_end batch_step _train_step process_batch"
    " handle_batch run_step update_batch process_function train_one_iter"
)
HOOKS = re.compile(
    r"^_*(on|before|after)_(\w+_)?(batch|iteration|iter|step|backward|forward|zero_grad|loss|pred)"
    r"(_(start|end|begin|started|ended|completed))?$"
)
"""What a training loop of another's calls in every step."""
OF_TRAINERS = words("_prepare_inputs prediction_step")
"""And what the one of Transformers does."""
COUNTED = words("update process add add_batch process_batch update_metrics accumulate")
AT_LAST = words("compute compute_metrics result results get_metric evaluate summarize accumulate")
"""Of a metric: what it does for a batch, and in the end."""
METRICS = re.compile(r"Metrics?$|Evaluator$|Meter$|Measure$|Accuracy$|Score$")
UPDATES_MODEL = re.compile(
    r"^_*(optim(izer)?_(step|update)|(\w+_)?update_(param(eter)?s|weights|nets?|networks?|actors?"
    r"|critics?|policy|model|agents?)|train_(batch|on_batch|step|minibatch)|training_step)$"
)
"""How functions are called that train for a step."""
MAKES_BATCH = re.compile(
    r"^_*(get|make|next|sample|generate|gen|create|build|draw|fetch|form)_(mini_?)?batch$"
    r"|^_*(mini_?)?batch_(generation|sampling)$"
)
SAMPLE_FUNCTIONS = frozenset(("__getitem__", "__getitems__", "load_item", "load_sample"))
LOSSES = re.compile(r"(^|_)(loss|losses|criterion|accuracy|penalty)(_|$)")
SELDOM = re.compile(
    r"^_*(__(?!call__|next__)|(init|build|setup|set|reset|load|read|save|store|write|export|plot|draw|show"
    r"|visuali[sz]e|display|print|main|run|fit|evaluate|test|register|convert|download|parse"
    r"|preprocess|from|to|calibrate|summari[sz]e|dump|repr|collate|tokeni[sz]e)(_|$)"
    r"|(train|log|predict|predict_proba|infer|generate|sample|encode|decode|embed|transform"
    r"|inverse|inverse_transform|interpolate|reconstruct)$)"
    r"|search|mining|retriev|(^|_)(returns|advantages?|gae)$|(^|_)(save|checkpoint)(_|$)"
)
"""How functions are called that a program calls now and then, tensors or not."""
UPDATES = re.compile(r"^(_*apply|(\w+_)?(step|update)(_parameters|_params|_weights)?)$")
FOLLOWS = re.compile(r"(soft|polyak|ema|momentum)_update|update_(\w+_)?(ema|averages?|momentum)$")
"""How functions are called that let averages of weights follow these."""
AVERAGES = re.compile(r"(?<![A-Z])EMA(?![A-Z](?![a-z]))|Ema(?![a-z])|MovingAverage|AveragedModel")
OPTIMIZER = re.compile(r"optim|(^|_)opt(_|$)")
OPTIMIZERS = re.compile(rf"Optimizer$|(^|\.)optim(izers?)?\.({'|'.join(sorted(OPTIMIZER_NAMES))})$")
COLLATE = re.compile(r"collat|^_*batchify|(^|_)(pad|pack|merge|assemble)_(mini_?)?batch$")
DRAWS = re.compile(
    r"^_*((sample|draw|fetch)(_(batch|batches|mini_?batch|transitions?|experiences?|sequences?"
    r"|episodes?|trajectory|trajectories|indices|idxs|idxes|proportional|(time_?)?steps?|paths?"
    r"|rows?|chunks?|segments?|windows?|uniform|data|n|for_\w+))?"
    r"|(\w+_)?sampling|get_(mini_?)?batch|\w*priorit\w*)$"
)
REPLAYS = re.compile(
    r"(Buffer|Memory|Storage|(Sum|Segment|Priority)Tree)$|Replay|Experiences?(Pool|Store)?$"
)
ADDS = frozenset(("add", "push", "append", "store", "insert", "remember"))
TRANSFORM_OWNERS = re.compile(
    r"(Transform|Augment|Augmentation|Collator|Collate\w*|Tokenizer|[Pp]rocessor)$"
)


class Heats:
    """Of one file."""

    def __init__(self, outline: Outline, values: Values) -> None:
        self._outline, self._values = outline, values
        self._of_loops: dict[int, Heat | None] = {}
        self._locals: dict[int, Local] = {}
        self._preparing: dict[int, bool] = {}

    def of_role(self, function: Function) -> Heat:
        """What a function's name and class say, before it is known who calls it."""
        name, owner = function.last_name, function.owner
        if isinstance(function.node, ast.Module):
            return Heat.ONCE
        if _says_nothing(name):
            return Heat.STEP if trains(function) or self._updates(function) else Heat.ONCE
        if LOSSES.search(name) and (
            _takes_batch(function) or _takes_model(function) or self._computes_loss(function)
        ):
            return Heat.STEP
        if trains(function) or self._updates(function):
            return Heat.STEP
        if name.startswith("forward") or name in STEP_FUNCTIONS or STEP_NAMES.search(name):
            return Heat.STEP
        if owner is not None and (HOOKS.search(name) or _is_of_trainer(name, owner)):
            return Heat.STEP
        if owner is not None and _counts_batch(name, owner):
            return Heat.STEP
        if owner is not None and name in SAMPLE_FUNCTIONS:
            return Heat.ELEMENT
        if owner is not None and name == "get" and {"len", "__len__"} & owner.methods.keys():
            return Heat.ELEMENT if owner.bases and owner.bases[0].endswith("Dataset") else Heat.ONCE
        if MAKES_BATCH.search(name):
            return Heat.STEP
        if collates(function):
            return Heat.STEP
        if owner is not None and name == "__next__":
            return Heat.STEP
        if owner is not None and DRAWS.search(name) and is_store(owner):
            return Heat.STEP
        if owner is not None and name == "__call__":
            if TRANSFORM_OWNERS.search(owner.name):
                return Heat.ELEMENT
            return Heat.STEP if _takes_batch(function) else Heat.ONCE
        if _updates_weights(function):
            return Heat.STEP
        return Heat.ONCE

    def _updates(self, function: Function) -> bool:
        return "step" in function.called and any(map(self._is_update, function.calls))

    def _is_update(self, site: Site) -> bool:
        """``optimizer.step()``, or ``scaler.step(optimizer)``, outside of all loops."""
        called = site.node.func
        if site.loop is not None or not isinstance(called, ast.Attribute) or called.attr != "step":
            return False
        held = called.value if not site.node.args else site.node.args[0]
        if OPTIMIZER.search(last_name(held)):
            return True
        return self._values.of(held, site.function).kind == "optimizer"

    def _computes_loss(self, function: Function) -> bool:
        """Whether it reduces something to a loss, and does not go over the batches itself: one
        that only chooses a loss does not."""
        return (
            "loss" in function.last_name
            and any(_reduces(site.node.func) for site in function.calls)
            and not any(self.kind_of(loop) == Heat.STEP for loop in function.loops)
        )

    def of_use(self, function: Function) -> Heat:
        """What the function's parameters say, to be used where nobody is known to call it: what
        takes tensors is mostly part of a step."""
        takes = not self.prepares_data(function) and self._values.parameters.takes_tensor(function)
        return Heat.STEP if takes else Heat.ONCE

    def is_seldom(self, function: Function) -> bool:
        """Whether it is called now and then: by its name, and where it holds the loop of steps."""
        if isinstance(function.node, ast.Module) or _is_called_seldom(function.last_name):
            return True
        return _sets_property(function) or any(loop.has_backward for loop in function.loops)

    def prepares_data(self, function: Function) -> bool:
        """Whether it is part of a data set, of what makes a batch of samples, or of a transform."""
        known = self._preparing.get(id(function))
        if known is None:
            known = self._preparing[id(function)] = self._prepares(function)
        return known

    def _prepares(self, function: Function) -> bool:
        owner = function.owner
        if owner is not None and (
            owner.name.endswith("Dataset")
            or any(each.endswith(("Dataset", "DataSet", "Transform")) for each in owner.lineage)
            or (TRANSFORM_OWNERS.search(owner.name) and not self._values.is_module(owner))
        ):
            return True
        return self.makes_batches(function)

    def makes_batches(self, function: Function) -> bool:
        """Whether a loader calls it for each sample or each batch."""
        return function.last_name in SAMPLE_FUNCTIONS or collates(function)

    def local(self, site: Site) -> Local:
        return self.of_loop(site.loop)

    def of_loop(self, loop: Loop | None) -> Local:
        if loop is None:
            return OUTSIDE
        found = self._locals.get(id(loop))
        if found is None:
            found = self._locals[id(loop)] = self._within(self.of_loop(loop.outer), loop)
        return found

    def _within(self, outer: Local, loop: Loop) -> Local:
        heat = self.kind_of(loop)
        if heat is None:
            return Local(outer.known, outer.inner + (not self.goes_over_few(loop)))
        return Local(heat) if heat >= outer.known else outer

    def kind_of(self, loop: Loop) -> Heat | None:
        """None for a loop over anything else."""
        key = id(loop)
        if key not in self._of_loops:
            self._of_loops[key] = self._kind(loop)
        return self._of_loops[key]

    def _kind(self, loop: Loop) -> Heat | None:
        target, over = loop.header()
        function = loop.function
        names = " ".join(_names(target)) if target is not None else ""
        said = f"{names} {' '.join(_names(over))}".lower()
        if isinstance(loop.node, ast.While):
            says_steps = any(map(_says_steps, said.split()))
            if loop.has_backward or says_steps or self._calls_model(loop):
                return Heat.STEP
            return None
        if self.is_loader(over, function) or loop.has_backward or "per_epoch" in said:
            return Heat.STEP
        if any(map(_says_epochs, said.split())):
            return Heat.EPOCH
        if isinstance(loop.node, COMPREHENSIONS):
            return None
        if any(map(_says_batch, names.split())):
            return Heat.STEP
        if self._calls_model(loop):
            return Heat.STEP
        if _is_range(over):
            if len(over.args) == 3 and "batch" in said:  # type: ignore[attr-defined]
                return Heat.STEP
            if any(map(_says_steps, said.split())):
                return Heat.EPOCH if self._has_batches(loop) else Heat.STEP
            if "batch" in said and "size" not in said:
                return Heat.STEP
        return None

    def _has_batches(self, loop: Loop) -> bool:
        """Whether a loop in it goes over batches: then each of its turns is as long as an epoch."""
        return any(
            loop in each.outwards() and each is not loop and self.goes_over_batches(each)
            for each in loop.function.loops
        )

    def _calls_model(self, loop: Loop) -> bool:
        """Whether its own body runs a model, an environment or an optimizer."""
        return any(self._is_model(site.node.func, loop.function) for site in loop.calls)

    def _is_model(self, called: ast.expr, function: Function) -> bool:
        if not isinstance(called, ast.Name | ast.Attribute):
            return False
        if isinstance(called, ast.Attribute) and called.attr == "step":
            return bool(STEPPED.search(" ".join(_names(called.value)).lower()))
        last = called.id if isinstance(called, ast.Name) else called.attr
        if not last.islower():
            return False
        return (
            "forward" in last
            or last in ("env_step", "step_env")
            or _updates_model(last)
            or self._values.of(called, function).kind == "module"
        )

    def is_loader(self, over: ast.expr, function: Function) -> bool:
        over = bare(over)
        if self._values.of(over, function).kind == "loader":
            return True
        first = last_name(over) or next(iter(_names(over)), "")
        return _says_loader(first.lower())

    def goes_over_batches(self, loop: Loop) -> bool:
        """Whether what it goes over or its target says that it takes the batches of a data set."""
        target, over = loop.header()
        if self.is_loader(over, loop.function):
            return True
        return target is not None and any(_says_batch(each.lower()) for each in _names(target))

    def _is_part(self, over: ast.expr, loop: Loop) -> bool:
        """Whether it is what a batch was unpacked into, which holds as much as there are
        samples."""
        if not isinstance(over, ast.Name):
            return False
        binding, _ = self._values.definition(over.id, over.lineno, loop.function)
        if binding is None or binding.how != "loop":
            return False
        counts = isinstance(binding.value, ast.Call) and bare(binding.value) is not binding.value
        return len(binding.path) > counts

    def goes_over_few(self, loop: Loop) -> bool:
        _, over = loop.header()
        if isinstance(over, ast.List | ast.Tuple | ast.Set | ast.Dict):
            return True
        if _is_range(over):
            last = over.args[-1]  # type: ignore[attr-defined]
            if isinstance(last, ast.Constant) and isinstance(last.value, int):
                return last.value <= 16
        over = bare(over)
        kind = self._values.of(over, loop.function).kind
        if kind in ("module", "dict") or (kind == "batch" and not self._is_part(over, loop)):
            return True
        return any(map(says_few, _names(over)))


@lru_cache(maxsize=10_000)
def _says_nothing(name: str) -> bool:
    """Whether a function's name leaves it open how often it runs, whatever its class."""
    return name not in TELLING and not name.startswith("forward") and not ANY_TELLING.search(name)


TELLING = (
    STEP_FUNCTIONS | OF_TRAINERS | COUNTED | SAMPLE_FUNCTIONS | {"get", "__next__", "__call__"}
)
ANY_TELLING = re.compile(
    "|".join(
        f"(?:{each.pattern})"
        for each in (LOSSES, STEP_NAMES, HOOKS, MAKES_BATCH, COLLATE, DRAWS, FOLLOWS, UPDATES)
    )
)
"""All that ``Heats.of_role`` looks for in a name."""


@lru_cache(maxsize=10_000)
def _says_epochs(name: str) -> bool:
    return EPOCHS.search(name) is not None


@lru_cache(maxsize=10_000)
def _says_steps(name: str) -> bool:
    return STEP_WORDS.search(name) is not None


@lru_cache(maxsize=10_000)
def _says_batch(name: str) -> bool:
    return BATCH.search(name) is not None


@lru_cache(maxsize=10_000)
def _says_loader(name: str) -> bool:
    return OF_LOADERS.search(name) is not None


@lru_cache(maxsize=10_000)
def says_few(name: str) -> bool:
    """Whether it is how that is called of which a model has a handful."""
    return FEW.search(name.lower()) is not None


@lru_cache(maxsize=10_000)
def _updates_model(name: str) -> bool:
    return UPDATES_MODEL.search(name) is not None


@lru_cache(maxsize=10_000)
def _is_called_seldom(name: str) -> bool:
    return SELDOM.search(name) is not None


def collates(function: Function) -> bool:
    """Whether it makes a batch of samples: by its name, or as what is called of a collator."""
    name, owner = function.last_name, function.owner
    if name == "__call__":
        return owner is not None and "ollat" in owner.name
    return _says_collate(name)


@lru_cache(maxsize=10_000)
def _says_collate(name: str) -> bool:
    return COLLATE.search(name) is not None


def is_store(owner: Class) -> bool:
    """Whether past steps are kept in it, of which batches are drawn: by its name or those of its
    bases, or since rows are added to it and sampled."""
    if any(REPLAYS.search(each) for each in (owner.name, *owner.bases)):
        return True
    return "sample" in owner.methods and not ADDS.isdisjoint(owner.methods)


def _updates_weights(function: Function) -> bool:
    """Whether it is a part of an optimizer's step, or makes averages of weights after one."""
    name, owner = function.last_name, function.owner
    if FOLLOWS.search(name):
        return True
    if owner is None or not UPDATES.search(name):
        return False
    return bool(AVERAGES.search(owner.name)) or any(OPTIMIZERS.search(each) for each in owner.bases)


def _sets_property(function: Function) -> bool:
    decorators: list[ast.expr] = getattr(function.node, "decorator_list", [])
    return bool(decorators) and any(
        isinstance(each, ast.Attribute) and each.attr == "setter" for each in decorators
    )


def trains(function: Function) -> bool:
    """Whether it goes back through a model, and not in a loop of its own."""
    return not STEPS.isdisjoint(function.called) and any(
        site.loop is None and _is_backward(site.node.func) for site in function.calls
    )


def _is_backward(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and called.attr in STEPS


def _is_of_trainer(name: str, owner: Class) -> bool:
    return name in OF_TRAINERS and any(each.endswith("Trainer") for each in owner.bases)


def _counts_batch(name: str, owner: Class) -> bool:
    """Whether it is what a metric does with each batch."""
    if name not in COUNTED or not AT_LAST & (owner.methods.keys() - {name}):
        return False
    return any(METRICS.search(each) for each in (owner.name, *owner.bases))


def _reduces(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and called.attr in ("mean", "sum", "item")


def _takes_batch(function: Function) -> bool:
    return any(
        each in ("X", "batch") or is_tensor_parameter(each.lower()) for each in function.parameters
    )


def _takes_model(function: Function) -> bool:
    """Of a penalty on weights: a model, and no data."""
    return set(function.parameters).isdisjoint(("self", "loader", "dataloader", "data")) and any(
        each in ("model", "net", "network", "module") for each in function.parameters
    )


def _is_range(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("range", "trange")
        and bool(node.args)
    )


def bare(node: ast.expr) -> ast.expr:
    """Without what is wrapped around to count or to show progress."""
    while isinstance(node, ast.Call) and node.args:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name not in (
            "enumerate",
            "tqdm",
            "iter",
            "zip",
            "islice",
            "track",
            "reversed",
            "progress",
        ):
            break
        node = node.args[0]
    return node


def _names(node: ast.AST) -> list[str]:
    """All identifiers, the outermost first."""
    found: list[str] = []
    level: list[Any] = [node]
    while level:
        below: list[Any] = []
        for each in level:
            if each.__class__ is ast.Name:
                found.append(each.id)
            elif each.__class__ is ast.Attribute:
                found.append(each.attr)
                below.append(each.value)
            elif each.__class__ is not ast.Constant:
                below += parts_of(each)
        level = below
    return found
