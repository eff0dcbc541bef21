"""Tokens that are padded to the longest that may ever come."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look, is_constant, keyword
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class PaddedToMaximum(Rule):
    code = "HST131"
    name = "padded-to-maximum-length"
    why = (
        "Every batch is as long as the longest text that is allowed: the model mostly computes"
        " padding, and attention does so squared."
    )
    instead = (
        "Pad to the longest of the batch in `collate_fn`, `padding=True`, and put texts of like"
        " length together; pad to a multiple of 64 where shapes must be few."
    )
    verify = "Compare losses with the attention mask in place."
    risk = "shapes differ from batch to batch, which a captured or compiled step minds"
    calls = (
        "tokenizer", "tokenize", "_tokenizer", "encode_plus", "batch_encode_plus", "__call__",
        "encode", "pad", "src_tokenizer", "tgt_tokenizer", "text_tokenizer",
    )  # fmt: skip
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "medium"
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
def prepare(tokenizer, texts):
    first = tokenizer(texts, padding="max_length", truncation=True)  # !
    return first, tokenizer.encode_plus(texts[0], pad_to_max_length=True)  # !
""",
        """\
def prepare(tokenizer, texts):
    return tokenizer(texts, padding=True), tokenizer(texts, padding="longest")
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        if is_constant(keyword(site.node, "padding"), "max_length") or is_constant(
            keyword(site.node, "pad_to_max_length"), value=True
        ):
            yield Found(
                site.node, f"`{look.source(site.node.func)}` pads all to the longest allowed"
            )
