"""The one exception that Hasten raises on purpose, and what others say in a line."""

import re

NAMED = re.compile(r"[\w.]*(Error|Exception|Unsupported)[:(]|\w+(Error|Exception)$")


class HastenError(Exception):
    """Something that the user can mend: what is wrong, with the value, and what to do about it.

    ``detail`` carries text that belongs to the user's own code, such as its traceback.
    """

    def __init__(self, what: str, *, fix: str = "", detail: str = "") -> None:
        super().__init__(f"{what} {fix}".strip())
        self.what = what
        self.fix = fix
        self.detail = detail


def in_a_line(message: str) -> str:
    """The line of an error's message that says what is wrong. A first line that ends with a colon,
    as torch.compile has it, only announces a traceback: then the last line of that goes with it."""
    lines = [line.rstrip() for line in message.splitlines() if line.strip()]
    named = [line for line in lines[1:] if NAMED.match(line) and not line.endswith(":")]
    first = lines[0] if lines else ""
    return f"{first} {named[-1]}" if first.endswith(":") and named else first
