"""What rules about data ask: is this class a data set, does it only index, how is a loader set."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeGuard

from hasten.scan.heat import Heat, bare
from hasten.scan.look import (
    Look,
    argument,
    called_name,
    is_constant,
    is_own_attribute,
    keyword,
    names_in,
    receiver,
)
from hasten.scan.nodes import walk
from hasten.scan.outline import Class, Function, Loop, Site
from hasten.scan.trace import last_name
from hasten.scan.vocabulary import words

LoaderTrouble = Literal["in memory", "no workers", "restarted", "unpinned"]

CONVERTS = words(
    "tensor as_tensor from_numpy FloatTensor LongTensor Tensor IntTensor array asarray float long"
    " int bool half double to astype toarray todense items keys squeeze unsqueeze view reshape"
    " flatten copy clone tuple list dict type zip detach is_tensor tolist isinstance len sub div"
    " divmod min max abs slice sqrt exp log log1p clip nan_to_num transpose permute swapaxes"
    " moveaxis expand_dims ascontiguousarray hasattr any all str stack hstack append update zeros"
    " ones full empty zeros_like ones_like full_like arange pad cat concat concatenate vstack mean"
    " sum std var argmax argmin isnan isfinite where cumsum diff repeat tile expand flip roll sin"
    " cos power one_hot eye searchsorted bisect_left bisect_right numpy item range enumerate round"
    " int64 float32 is_available count_nonzero maximum minimum clamp fill_ new_zeros"
)
"""Calls that a sample goes through unchanged but for its type."""
TEXT = ("text", "sentence", "path", "file", "name", "example", "sample", "image", "caption", "url")
"""What a data set holds that has to be looked at one by one."""
OBJECTS = re.compile(
    r"data_?sets?$|(^|_)ds$|graph|mol(ecule)?s$|record|entries|symbol|documents?$|docs$|_list$"
    r"|loader"
)
"""And what holds no rows of an array: another data set, or a list of objects."""


def is_dataset(owner: Class | None) -> bool:
    """By its bases; else a class that has a length and can be indexed by a number, and is neither a
    container nor a model."""
    if owner is None:
        return False
    if is_derived(owner):
        return True
    if "__len__" not in owner.methods or "__setitem__" in owner.methods:
        return False
    if any(base.endswith(NO_DATASETS) for base in owner.bases):
        return False
    getitem = owner.methods.get("__getitem__")
    return getitem is not None and _index_of(getitem) in ("idx", "index", "i", "item", "ix")


def is_derived(owner: Class) -> bool:
    """Whether it is derived from a data set, as far as names of bases tell."""
    return any(base.endswith(("Dataset", "DataSet")) for base in owner.lineage)


def in_dataset(site: Site) -> bool:
    """Whether it stands in what a data set does for its samples, not in how it is set up."""
    function = site.function
    return not function.last_name.startswith("__init") and is_dataset(function.owner)


NO_DATASETS = (
    "Module", "ModuleList", "Sequential", "dict", "Dict", "list", "List", "Sequence", "Mapping",
    "tuple", "Tuple", "Tensor", "Container", "Collection", "str", "Loader", "Sampler", "Env",
    "Batch",
)  # fmt: skip
"""How bases end of what can be indexed and is no data set."""
DECODES = words(
    "open imread read_image decode_image imdecode load_image pil_loader default_loader read_video"
    " load_audio read_audio load_wav read_wav load_video open_image transform transforms"
    " VideoReader AudioFile memmap read_raster dcmread ReadImage"
)
MEDIA = words(
    "sf.read soundfile.read torchaudio.load librosa.load wavfile.read sio.wavfile.read nib.load"
    " nibabel.load np.load numpy.load torch.load pickle.load pd.read_pickle audio.load io.read"
)
"""Of names that others have as well: what they are called on."""


def decodes(function: Function, look: Look) -> bool:
    """Whether it reads or transforms images, sound or other files, beside which the rest takes no
    time; also by a function of its own file."""
    for each in function.calls:
        own = next(own_functions(each.node, function, look), None)
        asked = [each] if own is None else own.calls
        if any(_decodes(inner, look) for inner in asked):
            return True
    return False


FITTED = re.compile(
    r"(scaler|encoder|preprocessor|vectori[sz]er|imputer|discreti[sz]er|binari[sz]er|normali[sz]er"
    r"|pipeline|pca|binner)s?$",
    re.IGNORECASE,
)
"""What is called as the transformers of scikit-learn are."""


def _decodes(site: Site, look: Look) -> bool:
    call, name = site.node, site.called
    if name == "transform":
        return name not in site.function.bindings and not FITTED.search(last_name(receiver(call)))
    if name in DECODES:
        return True
    if name not in ("read", "load", "read_pickle"):
        return False
    return ".".join(look.dotted(call.func).split(".")[-2:]) in MEDIA


def own_functions(call: ast.Call, function: Function, look: Look) -> Iterator[Function]:
    """What of the file a call runs: a method of the same class, or a function by its name."""
    name = called_name(call)
    own = None
    if is_own_attribute(call.func):
        own = function.owner.methods.get(name) if function.owner is not None else None
    elif isinstance(call.func, ast.Name):
        own = look.outline.function_named(name)
    if own is not None and own is not function:
        yield own


def indexed_only(function: Function | None) -> ast.Subscript | None:
    """Of a ``__getitem__`` that does no more than index what is in memory: the first place. What it
    asks another method of its class for counts as its own."""
    if function is None or not isinstance(function.node, ast.FunctionDef):
        return None
    index = _index_of(function)
    if not index or _gives_part_of_container(function):
        return None
    reading = _Reading(function.owner)
    return reading.first if reading.only_indexes(function, {index}) else None


class _Reading:
    """What methods of a class do with the number of a sample."""

    def __init__(self, owner: Class | None) -> None:
        self._methods = owner.methods if owner is not None else {}
        self._read: set[str] = set()
        self.first: ast.Subscript | None = None

    def only_indexes(self, function: Function, places: set[str]) -> bool:
        """Whether it does nothing else; ``places`` are the names of the number, or made of it."""
        if function.last_name in self._read or not isinstance(function.node, ast.FunctionDef):
            return False
        self._read.add(function.last_name)
        for statement in function.node.body:
            places |= _counted_from(statement, places)
            if not all(self._is_plain(node, places) for node in walk(statement)):
                return False
        return True

    def _is_plain(self, node: ast.AST, places: set[str]) -> bool:
        match node:
            case ast.Call():
                return _only_converts(node) or self._asks_own(node, places)
            case ast.While() | ast.With() | ast.Try():
                return False
            case ast.Subscript():
                if not _is_of_array(node) or _holds_text(node):
                    return False
                if self.first is None and any(_names(node.slice, each) for each in places):
                    self.first = node
        return True

    def _asks_own(self, call: ast.Call, places: set[str]) -> bool:
        """``self.row(index)``."""
        own = self._methods.get(called_name(call)) if is_own_attribute(call.func) else None
        if own is None:
            return False
        taken = [name for name in own.parameters if name != "self"]
        given = {
            name
            for name, value in zip(taken, call.args, strict=False)
            if any(_names(value, each) for each in places)
        }
        return self.only_indexes(own, given)


def _gives_part_of_container(function: Function) -> bool:
    """Whether all that it does is ``return self.parts[index]``, and its class is no data set by its
    bases."""
    body = function.node.body
    owner = function.owner
    if owner is None or is_derived(owner) or not isinstance(body, list):
        return False
    said = [each for each in body if not isinstance(each, ast.Expr)]
    return len(said) == 1 and isinstance(getattr(said[0], "value", None), ast.Subscript)


def _counted_from(statement: ast.stmt, places: set[str]) -> set[str]:
    """Names that it gives numbers that are computed from others: ``end = start + width``."""
    if not isinstance(statement, ast.Assign):
        return set()
    value = statement.value
    if any(isinstance(each, ast.Subscript) for each in walk(value)):
        return set()
    if not any(_names(value, each) for each in places):
        return set()
    return {
        each.id
        for target in statement.targets
        for each in walk(target)
        if isinstance(each, ast.Name)
    }


MANY = re.compile(r"(indices|indexes|idxs|idxes|ids|keys|rows|items)$")
SEVERAL = re.compile(r"list|List|slice|ndarray|Sequence|Tensor|Iterable")


def takes_many(function: Function) -> bool:
    """Whether what it is asked for may be several samples at once, as far as its name or its
    annotation tells."""
    asked = [each for name, each in function.parameters.items() if name != "self"]
    if len(asked) != 1:
        return False
    said = asked[0].annotation
    return MANY.search(asked[0].arg) is not None or (
        said is not None and SEVERAL.search(ast.unparse(said)) is not None
    )


TAKES_ROW = re.compile(r"(^|_)(indexing|take|index_select|get_row|select_rows?|row_at)$")


def indexed_by_call(function: Function) -> Iterator[ast.Call]:
    """Calls of a ``__getitem__`` that take a row out of an attribute: ``safe_indexing(x, i)``."""
    index = _index_of(function)
    for site in function.calls:
        call = site.node
        if not TAKES_ROW.search(called_name(call)):
            continue
        if any(isinstance(each, ast.Name) and each.id == index for each in call.args):
            yield call


def _only_converts(call: ast.Call) -> bool:
    """Also what makes a record of the parts of a sample: ``Sample(x=x, y=y)``."""
    is_record = isinstance(call.func, ast.Name) and call.func.id[:1].isupper()
    return is_record or called_name(call) in CONVERTS


def _index_of(function: Function) -> str:
    names = [name for name in function.parameters if name != "self"]
    return names[0] if len(names) == 1 else ""


def is_at(node: ast.AST, name: str) -> TypeGuard[ast.Subscript]:
    """``x[name]`` and ``x[:, name - 1]``."""
    return isinstance(node, ast.Subscript) and _names(node.slice, name)


def is_window(node: ast.AST, name: str) -> bool:
    """``x[name : name + width]``, also with more indices."""
    if not isinstance(node, ast.Subscript):
        return False
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return any(
        isinstance(part, ast.Slice)
        and part.lower is not None
        and part.upper is not None
        and _names(part.lower, name)
        and _names(part.upper, name)
        for part in parts
    )


def loop_over_data(site: Site, look: Look) -> Loop | None:
    """Of a ``for`` statement that goes over much, and is no part of a model or of its training, nor
    of what Numba compiles."""
    owner = site.function.owner
    if owner is not None and look.values.is_module(owner) and not _goes_over_array(site, look):
        return None
    loop = next((each for each in site.function.loops if each.node is site.node), None)
    if loop is None or loop.has_backward or look.heats.goes_over_few(loop):
        return None
    if any(FEW_PARTS.search(each) for each in names_in(site.node.iter)):
        return None
    return None if look.is_compiled(site.function) else loop


FEW_PARTS = re.compile(r"(session|channel|view|fold|buffer|env|vertice|vertex|dim|axe|column)s?$")
"""What data has a handful of."""


def _goes_over_array(site: Site, look: Look) -> bool:
    """Of NumPy: even in a model that is work of the host, unless it goes over what the model
    holds."""
    over = site.node.iter
    return look.value(over, site).kind == "array" and not is_own_attribute(bare(over))


def _names(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in walk(node))


def _is_of_array(node: ast.Subscript) -> bool:
    """Of ``self.x[i]``, and of parts of it; not of ``d["x"]``, which may hold anything."""
    base = node.value
    while isinstance(base, ast.Subscript):
        base = base.value
    is_key = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
    return not (isinstance(base, ast.Name) and is_key)


def _holds_text(node: ast.Subscript) -> bool:
    name = last_name(node.value).lower()
    if isinstance(node.value, ast.Attribute) and any(word in name for word in TEXT):
        return True
    return OBJECTS.search(name) is not None


@dataclass(frozen=True, slots=True)
class LoaderCall:
    """``DataLoader(...)``, and what it could do better."""

    call: ast.Call
    dataset: str
    """The name of the data set's class where it is known, else empty."""
    in_memory: bool
    is_innocent: bool = False
    """Whether it may do without workers, as far as is known."""

    @property
    def trouble(self) -> LoaderTrouble | None:
        if any(word.arg is None for word in self.call.keywords):
            return None
        takes_batches = self._takes_batches()
        if self.in_memory:
            return None if takes_batches else "in memory"
        workers = argument(self.call, 5, "num_workers")
        if workers is None or is_constant(workers, 0):
            return None if takes_batches or self.is_innocent else "no workers"
        kept = keyword(self.call, "persistent_workers")
        if kept is None or is_constant(kept, value=False):
            return "restarted"
        return "unpinned" if argument(self.call, 7, "pin_memory") is None else None

    def _takes_batches(self) -> bool:
        """Whether the data set is asked for whole batches."""
        return is_constant(argument(self.call, 1, "batch_size"), None)


def read_loader(site: Site, look: Look) -> LoaderCall | None:
    """None where it is no loader of torch's kind: one of another name, or what a class that is
    derived from it calls to set itself up, is told how many workers to use."""
    call: ast.Call = site.node
    given = argument(call, 0, "dataset")
    if given is None:
        return None
    if keyword(call, "num_workers") is None and not _is_of_torch(call, look):
        return None
    if called_name(call) == "__init__" and not _sets_up_loader(site):
        return None
    made = look.values.given(given, site.function)
    dataset = look.dotted(made.func).rpartition(".")[2] if isinstance(made, ast.Call) else ""
    return LoaderCall(
        call,
        dataset,
        in_memory=dataset == "TensorDataset"
        or look.value(given, site).kind in ("array", "tensor")
        or _only_indexes(dataset, look),
        is_innocent=_needs_no_workers(call, dataset, site, look),
    )


def _is_of_torch(call: ast.Call, look: Look) -> bool:
    """Not one of the same name that a package has written itself."""
    if called_name(call) != "DataLoader":
        return False
    module = look.dotted(call.func).partition(".")[0]
    return module in MAKE_LOADERS or (module == "DataLoader" and module not in look.outline.classes)


MAKE_LOADERS = words("torch torch_geometric torchdata monai dgl")
ARRAYS = re.compile(
    r"^[xyzu]s?$|(^|_)(rows|arrays?|tensors?|embeddings?|features?|latents?|points)$",
    re.IGNORECASE,
)
"""How is called what is handed to a loader as it lies in memory."""
ASKS_ONCE = re.compile(r"predict|infer|test|eval|embed|encode|extract|score|generate|export|stat")


def _needs_no_workers(call: ast.Call, dataset: str, site: Site, look: Look) -> bool:
    """Of all rows as one batch, or of the first one only; or of a data set of which nothing is
    known, where the file keeps its rows in tensors or where nothing is trained."""
    if called_name(argument(call, 1, "batch_size")) == "len" or called_name(site.parent) == "iter":
        return True
    if dataset[:1].isupper():
        return False
    if ARRAYS.search(last_name(argument(call, 0, "dataset"))):
        return True
    return "TensorDataset(" in look.text or bool(ASKS_ONCE.search(site.function.last_name))


def _sets_up_loader(site: Site) -> bool:
    owner = site.function.owner
    return (
        owner is not None
        and called_name(receiver(site.node)) == "super"
        and any(base.endswith("Loader") for base in owner.bases)
    )


def _only_indexes(name: str, look: Look) -> bool:
    owner = look.outline.classes.get(name)
    if owner is None or not is_dataset(owner):
        return False
    return indexed_only(owner.methods.get("__getitem__")) is not None


def sample_methods(site: Site, look: Look) -> Iterator[Function]:
    """Of a class definition that is a data set's: what gives a sample."""
    owner = look.outline.classes.get(site.node.name)
    if owner is not None and owner.node is site.node and is_dataset(owner):
        method = owner.methods.get("__getitem__")
        if method is not None:
            yield method


def is_element(node: ast.expr | None, site: Site, look: Look) -> bool:
    """Whether it is what a loop over many rows takes at its place, ``x[i]`` or ``x[i].sum()``, or
    each of a tensor that it goes over; in a loop over steps the wait is the greater trouble."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        node = node.func.value
    loop = site.loop
    if loop is None or look.local(site).known >= Heat.STEP or look.heats.goes_over_few(loop):
        return False
    target, over = loop.header()
    if target is None:
        return False
    if isinstance(node, ast.Subscript):
        place = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
        return called_name(over) in COUNTS and isinstance(place, ast.Name) and is_at(node, place.id)
    if not isinstance(node, ast.Name) or not isinstance(target, ast.Name) or node.id != target.id:
        return False
    return look.value(over, site).is_tensor


COUNTS = ("range", "arange", "trange", "enumerate")


MAPS = words("map imap imap_unordered starmap map_async apply filter submit")


def runs_for_each(function: Function, look: Look) -> bool:
    """Whether its file calls it in a loop over many things, or hands it to what does so."""
    name = function.last_name
    for other in look.outline.functions:
        for site in other.calls:
            called = site.called
            if called == name:
                if site.loop is not None and not look.heats.goes_over_few(site.loop):
                    return True
            elif called in MAPS and any(last_name(each) == name for each in site.node.args[:1]):
                return True
    return False


ROWS = re.compile(
    r"^(n|num|nb)_(samples|rows|examples|instances|points|nodes|graphs|images|seqs)$|batch_?size$|^bsz?$"
)


def counts_rows(over: ast.Call, function: Function, look: Look) -> bool:
    """``range(len(x))``, ``range(x.shape[0])``, ``range(n_samples)`` and the like, also where a
    name was given such a count."""
    if not over.args:
        return False
    last = over.args[-1]
    given = look.values.given(last, function) if isinstance(last, ast.Name) else None
    return any(_is_count(each) for each in (*walk(last), *(walk(given) if given else ())))


def _is_count(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant(value=0)]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return ROWS.search(name) is not None
    return False


def is_called_at(call: ast.Call, place: str) -> bool:
    """``models[i](x)`` and ``models[i].fit(x)``."""
    held = call.func
    while isinstance(held, ast.Attribute):
        held = held.value
    return is_at(held, place) and not isinstance(held.slice, ast.Tuple)


def holds_numbers(node: ast.Subscript, site: Site, look: Look) -> bool:
    """Whether what is indexed may be an array: not known to be else, nor called as text is."""
    if isinstance(node.slice, ast.Tuple):
        return True
    if any(word in last_name(node.value).lower() for word in (*TEXT, "model", "smiles", "layer")):
        return False
    return look.value(node.value, site).kind in ("array", "tensor", "unknown", "number")


def is_start_of_row(node: ast.Subscript, places: set[str]) -> bool:
    """``padded[i, :end]`` and ``padded[i][:end]``."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
    if isinstance(node.value, ast.Subscript) and not parts:
        parts = [node.value.slice, node.slice]
    if len(parts) < 2 or not isinstance(parts[0], ast.Name) or parts[0].id not in places:
        return False
    row = parts[1]
    return (
        isinstance(row, ast.Slice)
        and row.lower is None
        and row.upper is not None
        and not isinstance(row.upper, ast.Constant | ast.UnaryOp)
        and row.step is None
    )
