"""Characters as their places in an alphabet, by a table that is looked up for a whole text."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hasten.data.encoders.text_rows import shown
from hasten.errors import HastenError

Numbers = npt.NDArray[np.uint8] | npt.NDArray[np.int32]


class CharacterTable:
    """Numbers the characters of ``alphabet`` from ``first``; every other one gets ``unknown``.

    A character is a Unicode code point, compared as it is: 'a' is not 'A', and an umlaut of two
    code points is two characters. Text of Latin-1 goes through 256 entries, other text through one
    entry for each code point up to the alphabet's highest, 4 MB at most.
    """

    def __init__(
        self, alphabet: str, *, first: int, unknown: int, beside: dict[str, int] | None = None
    ) -> None:
        """``beside`` are characters outside of the alphabet with numbers of their own."""
        if not alphabet:
            raise HastenError("The alphabet is empty.", fix="Name its characters, such as 'ACGT'.")
        if len(set(alphabet)) < len(alphabet):
            twice = next(each for each in alphabet if alphabet.count(each) > 1)
            raise HastenError(
                f"The alphabet {shown(alphabet)} has {twice!r} twice.",
                fix="Name each character once.",
            )
        self.unknown = unknown
        numbers = dict(zip(alphabet, range(first, first + len(alphabet)), strict=True))
        numbers |= beside or {}
        codes = code_points("".join(numbers))
        self._by_code = np.full(int(codes.max()) + 2, unknown, np.int32)
        self._by_code[codes] = list(numbers.values())
        narrow = self._by_code.take(np.arange(256), mode="clip")
        self._by_byte = narrow.astype(np.uint8).tobytes() if self._by_code.max() < 256 else None

    def numbers(self, text: str) -> Numbers:
        """One number for each character of ``text``."""
        if self._by_byte is not None:
            try:
                narrow = text.encode("latin-1")
            except UnicodeEncodeError:
                pass  # other text, by code points
            else:
                return np.frombuffer(narrow.translate(self._by_byte), np.uint8)
        # What lies beyond the table is clipped to its last entry, which is for the unknown.
        return self._by_code.take(code_points(text), mode="clip")


def strangers_to(alphabet: str) -> Iterator[str]:
    """Characters that are not in it, the lowest first."""
    known = set(alphabet)
    return (each for each in map(chr, range(0x110000)) if each not in known)


def code_points(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def text_of(codes: npt.NDArray[np.uint32]) -> str:
    """The text of these code points."""
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
