"""Text that is cut into tokens in a hot place."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import decodes, in_dataset, runs_for_each
from hasten.scan.trace import last_name

TOKENIZER = re.compile(
    r"tokeni[sz]|(^|[._])(tok|spm?|bpe|sp_model)([._]|$)|encode_?as_?(ids|pieces)|processor$",
    re.IGNORECASE,
)
SURELY = re.compile(r"tokeni[sz]", re.IGNORECASE)
"""What cuts text wherever it stands; the rest is asked only where samples are prepared."""
WRAPPER = re.compile(r"^_*(batch_)?tokenize")
"""Names of functions that are asked to, and cannot do otherwise."""
VOCABULARY = re.compile(
    r"vocab|stoi|(word|token|char|tok|w|c)_?(2|to)_?(i|id|ids|ix|idx|index|num)$", re.IGNORECASE
)
NAMED_TEXT = frozenset(("text", "texts"))
TEXT_WORDS = frozenset(("text", "texts", "sentences", "return_tensors", "padding", "truncation"))


class TokenizedAgain(Rule):
    code = "HST108"
    name = "text-tokenized-in-hot-place"
    why = (
        "The same text is cut into the same tokens in every epoch, by the host, and what the device"
        " could compute waits for it."
    )
    instead = (
        "Tokenize the data once before training and pad in `collate_fn`; where text comes in live,"
        " tokenize the next batch in a worker while this one is computed."
    )
    verify = "Compare the token ids of a batch of both versions."
    effort = "an hour"
    calls = (
        "tokenize", "tokenizer", "word_tokenize", "sent_tokenize", "batch_encode_plus",
        "encode_plus", "encode_batch", "tokenizer_encoder", "tokenizer_decoder", "src_tokenizer",
        "tgt_tokenizer", "tokenizer_fn", "tokenize_fn", "_tokenizer", "_tokenize", "text_tokenizer",
        "encode", "tok", "processor", "EncodeAsIds", "EncodeAsPieces", "encode_as_ids",
        "encode_as_pieces", "encode_line",
    )  # fmt: skip
    nodes = (ast.ListComp,)
    mentions = ("tok", "Tok", "vocab", "word", "stoi", "processor", "ncode", "bpe")
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch

def make_collate(tokenizer):
    def collate_fn(batch):
        texts = [each["text"] for each in batch]
        inputs = tokenizer(texts, return_tensors="pt", padding=True)  # !
        return inputs

    return collate_fn

class Encoder:
    def encode(self, texts, batch_size):
        for start in range(0, len(texts), batch_size):
            features = self.tokenize(texts[start : start + batch_size])  # !
            self.model(features)

class Loss(torch.nn.Module):
    def forward(self, ids):
        return self.retokenize(ids)

    def retokenize(self, ids):
        texts = self.tokenizer.batch_decode(ids)
        return self.tokenizer_decoder(texts, padding=True)  # !
""",
        """\
import nltk
from torch.utils.data import Dataset

class Noisy(Dataset):
    @staticmethod
    def delete(text):
        return nltk.word_tokenize(text)  # !

    def __getitem__(self, index):
        return self.tokenizer.encode(self.texts[index])  # !

class Pieces(Dataset):
    def __getitem__(self, index):
        ids = self.sp.EncodeAsIds(self.texts[index])  # !
        return ids, self.tok(self.texts[index], truncation=True)  # !

class Words(Dataset):
    def __getitem__(self, index):
        words = self.texts[index].split()
        return [self.vocab.get(word, 0) for word in words], [self.word2idx[w] for w in words]  # !
""",
        """\
from multiprocessing import Pool

def features(examples, tokenizer):
    return [tokenizer.encode(each.text, max_length=128) for each in examples]  # !

def words(sentence, tokenizer):
    found = []
    for word in sentence.split():
        found += tokenizer.tokenize(word)  # !
    return found

def convert(example):
    first = example.tokenizer.tokenize(example.first)  # !
    return first, example.tokenizer.tokenize(example.second)

def convert_all(examples):
    with Pool(4) as pool:
        return pool.map(convert, examples)
""",
        """\
import torch
from torch.utils.data import Dataset

def features(texts, tokenizer):
    for name in ("train", "test"):
        print(tokenizer(texts[name]))
    return tokenizer.tokenize("a b"), [token.encode("utf-8") for token in texts]

def pieces(bpe, texts):
    return [bpe.encode(text) for text in texts]

def ids(texts, vocab):
    return [vocab[word] for text in texts for word in text.split()]

class Texts(Dataset):
    def __init__(self, texts, tokenizer):
        self.ids = tokenizer(texts)

    def __getitem__(self, index):
        return self.ids[index]

class OwnTokenizer:
    def __call__(self, texts):
        return [self.tokenizer(text, truncation=True) for text in texts]

class Model(torch.nn.Module):
    def tokenize(self, texts):
        return self.tokenizer(texts, padding=True)

    def forward(self, x):
        x = self.tokenizer(x)
        return self.encode(self.patch_tokenizer(x=x))
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if isinstance(site.node, ast.ListComp):
            if _looks_up_words(site.node) and in_dataset(site):
                message = "words are looked up one by one, for the same text again each epoch"
                yield Found(site.node, message, least=Heat.ELEMENT)
            return
        called = look.source(site.node.func)
        if not TOKENIZER.search(called) or WRAPPER.search(site.function.last_name):
            return
        owner = site.function.owner
        if owner is not None and owner.name.endswith("Tokenizer"):
            return
        words = {word.arg for word in site.node.keywords}
        if not words & TEXT_WORDS and (not site.node.args or self._cuts_tensor(site, look)):
            return
        if called.endswith("processor") and not words & NAMED_TEXT:
            return
        if not SURELY.search(called) and not look.prepares_data(site):
            return
        is_sample = in_dataset(site)
        if is_sample and decodes(site.function, look):
            return
        if self._takes_one(site, look):
            yield Found(site.node, f"`{called}` is given one text after the other", least=Heat.ONCE)
        else:
            least = Heat.ONCE if is_sample else None
            yield Found(site.node, f"`{called}` cuts text into tokens each time", least=least)

    def _cuts_tensor(self, site: Site, look: Look) -> bool:
        """Whether a model cuts an image or a series into parts, which are called tokens as well."""
        owner = site.function.owner
        is_module = owner is not None and look.values.is_module(owner)
        return is_module and look.value(site.node.args[0], site).is_tensor

    def _takes_one(self, site: Site, look: Look) -> bool:
        """Whether a loop over many texts gives it one each time; also the loop of a caller, where
        it is the first of its function."""
        loop = site.loop
        if loop is not None and site.node.args:
            return (
                loop.changes(site.node.args[0])
                and look.heats.kind_of(loop) is None
                and not look.heats.goes_over_few(loop)
            )
        alike = look.calls_in(site.function, site.called)
        return next(alike).node is site.node and runs_for_each(site.function, look)


def _looks_up_words(made: ast.ListComp) -> bool:
    """``[vocab[word] for word in words]``, also with ``get``."""
    match made.elt:
        case ast.Subscript(value=table) | ast.Call(func=ast.Attribute(value=table, attr="get")):
            return VOCABULARY.search(last_name(table)) is not None
    return False
