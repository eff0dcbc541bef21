"""What was worked out of files before, by their content. One file for each project: what changes
is looked at anew, what nobody has asked for in a while is dropped.

The cache only saves time. One that is damaged, old or cannot be written is as good as none.
"""

import hashlib
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from hasten.errors import HastenError
from hasten.host.files import write_atomically
from hasten.host.folders import cache_root
from hasten.records import scan as records

DIGEST_BYTES = 32
KEPT_FOR = 20
"""So often may the file be written without an entry being asked for."""


class _Entry(msgspec.Struct, array_like=True):
    value: bytes
    age: int = 0


class _Pack(msgspec.Struct, array_like=True):
    version: str
    entries: dict[str, _Entry]


class Cache:
    """Holds bytes by keys."""

    def __init__(self, file: Path | None, version: str) -> None:
        """Without a file nothing is kept. ``version`` is of the code that made what is held."""
        self._file, self._version = file, version
        self._entries = {} if file is None else _read(file, version)
        self._asked: set[str] = set()
        self._is_new = False

    def get(self, key: str) -> bytes | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._asked.add(key)
        return entry.value

    def put(self, key: str, value: bytes) -> None:
        self._entries[key] = _Entry(value)
        self._asked.add(key)
        self._is_new = True

    def save(self) -> None:
        if self._file is None or not self._is_new:
            return
        for key, entry in self._entries.items():
            entry.age = 0 if key in self._asked else entry.age + 1
        kept = {key: each for key, each in self._entries.items() if each.age <= KEPT_FOR}
        content = msgspec.msgpack.encode(_Pack(self._version, kept))
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, hashlib.sha256(content).digest() + content)


def project_cache(folder: Path, version: str) -> Cache:
    """Of the project in that folder, among what programs of this user keep."""
    name = hashlib.sha256(str(folder).encode(errors="surrogateescape")).hexdigest()[:32]
    try:
        return Cache(cache_root() / "scan" / name, version)
    except HastenError:  # this user has no home
        return Cache(None, version)


def version_of_rules() -> str:
    """Changes with every file of the scanner, and with the grammar that it reads."""
    digest = hashlib.sha256(sys.version.encode())
    for file in (Path(records.__file__), *sorted(Path(__file__).parent.rglob("*.py"))):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _read(file: Path, version: str) -> dict[str, _Entry]:
    try:
        written = file.read_bytes()
    except OSError:
        return {}
    digest, content = written[:DIGEST_BYTES], written[DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        return {}
    try:
        pack = msgspec.msgpack.decode(content, type=_Pack)
    except msgspec.MsgspecError:  # of another version of this file
        return {}
    return pack.entries if pack.version == version else {}
