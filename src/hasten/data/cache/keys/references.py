"""What a code object refers to, read from its instructions."""

import dis
import functools
import types
from typing import NamedTuple

ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}


class Reference(NamedTuple):
    """A global name and the attributes that are read of it at once, as in ``np.linalg.norm``."""

    name: str
    attributes: tuple[str, ...]


class Import(NamedTuple):
    """An import within a function: ``import module`` or ``from module import names``."""

    module: str
    level: int
    names: tuple[str, ...]


class References(NamedTuple):
    globals: tuple[Reference, ...]
    imports: tuple[Import, ...]


@functools.lru_cache(maxsize=4096)
def references_of(code: types.CodeType) -> References:
    """In the order of the code; of the functions and classes inside it too."""
    found: dict[Reference, None] = {}
    imports: dict[Import, None] = {}
    instructions = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    for place, each in enumerate(instructions):
        if each.opname in GLOBALS:
            found[Reference(each.argval, _attributes(instructions, place + 1))] = None
        elif each.opname == "IMPORT_NAME":
            level, names = instructions[place - 2].argval, instructions[place - 1].argval
            imports[Import(each.argval, level, tuple(names or ()))] = None
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = references_of(constant)
            found.update(dict.fromkeys(inner.globals))
            imports.update(dict.fromkeys(inner.imports))
    return References(tuple(found), tuple(imports))


def _attributes(instructions: list[dis.Instruction], place: int) -> tuple[str, ...]:
    names = []
    while place < len(instructions) and instructions[place].opname in ATTRIBUTES:
        names.append(instructions[place].argval)
        place += 1
    return tuple(names)
