"""One file's share of a scan, and the process that does many of them for another.

Requests and answers are MessagePack on stdin and stdout, each after its length. Nothing of the
files that are read is imported, nor torch.
"""

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from hasten.scan.analysis import analyse_content
from hasten.scan.choice import chosen
from hasten.scan.looking import Rules
from hasten.scan.reading import UnreadableError, matters, read

LENGTH_BYTES = 8


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """Of one path: why it cannot be read, or an analysis, or neither where it does not matter."""

    key: str = ""
    """By the content that was read, and by the rules."""
    analysis: bytes | None = None
    failure: str = ""


class Reader:
    """Answers for files, by some rules."""

    def __init__(self, codes: Sequence[str]) -> None:
        self._rules = Rules.of(chosen(codes, ()) if codes else ())
        self._name = " ".join(codes).encode()

    def answer(self, path: Path) -> Answer:
        try:
            content = read(path)
        except UnreadableError as error:
            return Answer(failure=str(error))
        if not matters(content):
            return Answer()
        analysis = analyse_content(content, self._rules)
        return Answer(self.key_of(content), msgspec.msgpack.encode(analysis))

    def key_of(self, content: bytes) -> str:
        return hashlib.sha256(self._name + b"\n" + content).hexdigest()


def send(message: object, stream: IO[bytes]) -> None:
    content = msgspec.msgpack.encode(message)
    stream.write(len(content).to_bytes(LENGTH_BYTES, "big") + content)
    stream.flush()


def receive(stream: IO[bytes], kind: Any) -> Any:
    """None where the other end was closed before the message's end."""
    length = int.from_bytes(stream.read(LENGTH_BYTES), "big")
    content = stream.read(length)
    return msgspec.msgpack.decode(content, type=kind) if content[length - 1 :] else None


def main() -> None:
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    reader = Reader(receive(requests, list[str]) or ())
    while (paths := receive(requests, list[bytes])) is not None:
        answered = [reader.answer(Path(os.fsdecode(each))) for each in paths]
        try:
            send(answered, answers)
        except BrokenPipeError:  # whoever asked is gone
            os._exit(1)


if __name__ == "__main__":
    main()
