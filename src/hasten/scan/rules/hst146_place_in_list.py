"""The place of a value in a list, searched for in a loop."""

import ast
from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.heat import Heat
from hasten.scan.look import Look, called_name, is_own_attribute, receiver
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule
from hasten.scan.trace import last_name, varies

LISTS = ("list", "sorted", "tolist", "to_list")


class PlaceInList(Rule):
    code = "HST146"
    name = "place-in-list-searched-in-loop"
    why = "`index` looks at one element after the other, for each turn of the loop again."
    instead = "Make a dict of places once: `places = {each: i for i, each in enumerate(names)}`."
    effort = "a minute"
    verify = "Compare what both versions give; where values stand twice, the first place counts."
    calls = ("index",)
    in_loops = True
    least = Heat.ONCE
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
def codes(values, frame):
    known = sorted(set(values))
    found = [known.index(value) for value in values]  # !
    ids = frame["id"].tolist()
    for row in values:
        found.append(ids.index(row))  # !
    return found

class Words:
    def __init__(self, texts):
        self.words = sorted({word for text in texts for word in text})

    def codes(self, text):
        return [self.words.index(word) for word in text]  # !
""",
        """\
KINDS = list("abc")

def kinds(values):
    return [KINDS.index(value) for value in values]

def codes(values, names, text):
    known = {value: i for i, value in enumerate(values)}
    kinds = ["a", "b"]
    for value in values:
        print(known[value], kinds.index(value), text.index("x"))
    for name in ("a", "b"):
        print(list(values).index(name))
    return sorted(values).index(names[0])
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        call: ast.Call = site.node
        searched, loop = receiver(call), site.loop
        if loop is None or len(call.args) != 1:
            return
        if searched is None or not (isinstance(searched, ast.Name) or is_own_attribute(searched)):
            return
        if not varies(call.args[0], loop) or varies(searched, loop):
            return
        if look.heats.goes_over_few(loop) or not self._is_long(searched, site, look):
            return
        name = look.source(searched)
        yield Found(call, f"`{look.source(call)}` searches `{name}` in each turn")

    def _is_long(self, node: ast.expr, site: Site, look: Look) -> bool:
        """A list of unknown length; what is called as a constant has a few."""
        if last_name(node)[:1].isupper():
            return False
        if isinstance(node, ast.Name):
            return called_name(look.values.given(node, site.function)) in LISTS
        owner = site.function.owner
        given = owner.attributes.get(last_name(node), ()) if owner is not None else ()
        return any(called_name(binding.value) in LISTS for binding, _ in given)
