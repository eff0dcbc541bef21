"""Text that is cut into tokens in a hot place."""

import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.samples import decodes, in_dataset

TOKENIZER = re.compile(r"token", re.IGNORECASE)
WRAPPER = re.compile(r"^_*(batch_)?tokenize")
"""Names of functions that are asked to, and cannot do otherwise."""
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
        "encode",
    )  # fmt: skip
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
""",
        """\
import torch
from torch.utils.data import Dataset

class Texts(Dataset):
    def __init__(self, texts, tokenizer):
        self.ids = tokenizer(texts)

    def __getitem__(self, index):
        return self.ids[index]

class Model(torch.nn.Module):
    def tokenize(self, texts):
        return self.tokenizer(texts, padding=True)

    def forward(self, x):
        return self.encode(self.patch_tokenizer(x=x))
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        called = look.source(site.node.func)
        if not TOKENIZER.search(called) or WRAPPER.search(site.function.last_name):
            return
        words = {word.arg for word in site.node.keywords}
        if not site.node.args and not words & TEXT_WORDS:
            return
        is_sample = in_dataset(site)
        if is_sample and decodes(site.function, look):
            return
        least = Heat.ONCE if is_sample else None
        yield Found(site.node, f"`{called}` cuts text into tokens each time", least=least)
