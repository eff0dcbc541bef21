"""Preparation that gives the same each epoch, done for every sample anew."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat, collates
from hasten.scan.look import Look, called_name, is_own_attribute, receiver
from hasten.scan.outline import Function, Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import CONVERTS, FITTED, decodes, is_dataset, own_functions
from hasten.scan.trace import last_name, root_name
from hasten.scan.vocabulary import words

PREPARES = re.compile(
    r"normali[sz]|standardi[sz]|process|prepare|featur|(^|_)(parse|fill|impute|encode|convert"
    r"|compute|calc|calculate|extract|build|construct|scale|filter|clean|vectori[sz]e)(_|$)"
    r"|resample|resize|spectrogram|mfcc|fbank|stft|wavelet|one_?hot|graph|neighbo|bgr|ycbcr"
)
RANDOM = re.compile(
    r"rand|aug|transform|jitter|crop|flip|noise|mixup|drop|(^|_)sampl|file|path|key|dir|(compute|make|create)_mask"
)
TRANSFORMS = re.compile(r"^(fit_|inverse_)?transform(_sample|_row|_one)?$")
VAGUE = re.compile(
    r"(^|_)(fill|convert|compute|calc|calculate|extract|build|construct|scale|filter|clean)(_|$)"
)
"""Of methods of the data set: what may be work, or no more than taking a part."""
CHANCE = words(
    "rand randn randint randperm random uniform normal choice choices shuffle permutation sample"
    " multinomial bernoulli integers"
)
MOLECULES = re.compile(r"^(MolFrom\w+|mol_from_\w+|smiles2graph|smiles_to_graph|from_smiles)$")
PARSES = words("json.loads ast.literal_eval orjson.loads yaml.safe_load pandas.to_datetime")
HEAVY = re.compile(
    r"spectrogram|(^|_)(mfcc|fbank|stft|cqt|mel|f0|pitch)(_|$)|phonemi[sz]e|(^|_)to_phonemes"
)
"""What takes as long as to decode the sample does."""
READS = re.compile(r"load|read|open|len|size|rand|aug|path|file|key|invert|inverse|istft")
"""What only has to do with such."""
OF_PART = re.compile(r"pre_?process|prepare|featuri[sz]e|normali[sz]e|standardi[sz]e")
"""What a data set asks another object of its own for, where that can be nothing else."""
NOT_OWN = ("torch.", "numpy.")
INDICES = frozenset(("idx", "index", "i", "item", "ix", "indices"))


class PreparedAgain(Rule):
    code = "HST107"
    name = "sample-prepared-again-each-epoch"
    why = (
        "What depends on the stored sample alone comes out the same in every epoch, and is computed"
        " for one sample at a time each time."
    )
    instead = (
        "Prepare all samples once, as arrays, when the data set is made, or keep what came out."
    )
    verify = "Compare samples of both versions; they must not be random."
    effort = "an hour"
    risk = "what is kept takes memory"
    nodes = (ast.ClassDef, ast.FunctionDef)
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "medium"
    examples: ClassVar[tuple[str, ...]] = (
        """\
import json
import soundfile as sf
import torch
from torch.utils.data import Dataset

class Series(Dataset):
    def __getitem__(self, idx):
        x, mask = fill_and_get_mask(self.x[idx])  # !
        sample = {  # !
            "x": x,
            "delta": parse_delta(mask),
        }
        self.process_path(idx)
        return self.normalize(sample["x"]), sample  # !

def collate(rows):
    return [build_graph(row) for row in rows]  # !

class Molecules(Dataset):
    def __getitem__(self, idx):
        return featurize(Chem.MolFromSmiles(self.smiles[idx]))  # !

class Tables(Dataset):
    def __getitem__(self, idx):
        row = self.scaler.transform(self.x[idx].reshape(1, -1))  # !
        return torch.from_numpy(row)

class Sounds(Dataset):
    def __getitem__(self, idx):
        record = json.loads(self.lines[idx])  # !
        sound = sf.read(record["path"])
        other = self.load_mel(idx)
        return self.audio.melspectrogram(sound), normalize(sound), phonemize(record["text"])  # !

class Parts(Dataset):
    def __getitem__(self, idx):
        whole = self.module._preprocess_series(self.places[idx])  # !
        return whole[idx]
""",
        """\
import torch
from torch.utils.data import Dataset

class Series(Dataset):
    def __init__(self, x):
        self.x = normalize(x)

    def __getitem__(self, idx):
        x = random_resample(self.x[idx])
        x = self.transform(x) + self.augment.transform(x)
        return x.normalize(), torch.nn.functional.one_hot(self.y[idx])

    def write(self, path):
        return preprocess(path)

class Windows(Dataset):
    def __getitem__(self, idx):
        self._fill()
        if idx not in self.graphs:
            self.graphs[idx] = build_graph(self.rows[idx])
        return self._extract_values(self.x, idx), self._process(self.x[idx]), self.graphs[idx]

    def _process(self, row):
        return row + torch.randn(3)

    def _extract_values(self, x, idx):
        return x[idx : idx + 8]

def collate(rows):
    return build_graph([row["x"] for row in rows])
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if isinstance(site.node, ast.FunctionDef):
            if "collate" in site.node.name:
                for each in look.outline.functions:
                    if each.node is site.node:
                        yield from self._within(each, look)
            return
        owner = look.outline.classes.get(site.node.name)
        if owner is None or owner.node is not site.node or not is_dataset(owner):
            return
        for name, method in owner.methods.items():
            if not name.startswith("__init") and INDICES & method.parameters.keys():
                yield from self._within(method, look)

    def _within(self, function: Function, look: Look) -> Iterator[Found]:
        """Of a collate function only what it does for each sample: a batch never comes again."""
        calls = [each for each in function.calls if each.loop is not None or not collates(function)]
        for site in calls:
            if _is_fitted(site.node):
                what = look.source(site.node.func)
                yield Found(site.statement, f"`{what}` is given one sample at a time, each epoch")
            elif MOLECULES.search(site.called):
                name = site.called
                yield Found(site.statement, f"`{name}` reads the same molecule again each epoch")
            elif look.dotted(site.node.func) in PARSES and site.node.args:
                yield Found(site.statement, f"`{site.called}` reads the same text again each epoch")
            elif HEAVY.search(site.called) and not READS.search(site.called):
                message = f"`{site.called}` computes the same features again each epoch"
                yield Found(site.statement, message)
        if decodes(function, look):
            return
        for site in calls:
            name = site.called
            if HEAVY.search(name):
                continue
            if not PREPARES.search(name) or RANDOM.search(name) or _is_kept(site):
                continue
            if self._is_own(site.node.func, look) and _is_work(site, function, look):
                yield Found(site.statement, f"`{name}` prepares the same sample again each epoch")

    def _is_own(self, called: ast.expr, look: Look) -> bool:
        """A function or a method of the data set, not one of a tensor or of torch."""
        if isinstance(called, ast.Name):
            return not look.dotted(called).startswith(NOT_OWN)
        if not isinstance(called, ast.Attribute):
            return False
        if is_own_attribute(called.value):
            return OF_PART.search(called.attr) is not None
        if not isinstance(called.value, ast.Name):
            return False
        base = called.value.id
        module = look.outline.imports.get(base, "torch")
        return base == "self" or not f"{module}.".startswith(NOT_OWN)


def _is_kept(site: Site) -> bool:
    """Whether what comes out is put into the data set, ``self.graphs[i] = ...``, or nothing
    does."""
    match site.statement:
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute() as target]):
            root = root_name(target)
            return root is not None and root.id == "self"
    return isinstance(site.statement, ast.Expr) and site.statement.value is site.node


def _is_work(site: Site, function: Function, look: Look) -> bool:
    """Of what stands in the file: whether it does more than to convert, and leaves nothing to
    chance. Of a method that does not, a vague name is not enough."""
    own = next(own_functions(site.node, function, look), None)
    if own is None:
        return not is_own_attribute(site.node.func) or VAGUE.search(site.called) is None
    if not CHANCE.isdisjoint(own.called):
        return False
    return bool(own.loops) or not own.called <= CONVERTS


def _is_fitted(call: ast.Call) -> bool:
    """``self.scaler.transform(x)``: made for whole tables, with many checks at each call."""
    return TRANSFORMS.search(called_name(call)) is not None and (
        FITTED.search(last_name(receiver(call))) is not None
    )
