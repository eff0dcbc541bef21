"""What a cache entry says of itself, and what the commands say of a cache."""

from typing import Literal

from hasten.records.record import Record

CACHE_FORMAT = 1
MANIFEST = "manifest.json"


class ArrayFile(Record, frozen=True, kw_only=True):
    """One ``.npy`` file."""

    name: str
    dtype: str
    """As numpy's file format writes it, such as ``'<f4'`` in its quotes."""
    shape: tuple[int, ...]
    fortran_order: bool
    offset: int
    """Where the header ends and the numbers begin."""
    bytes: int
    """Of the whole file."""
    sha256: str
    """Of the whole file."""


class ArrayNode(Record, frozen=True, kw_only=True, tag="array"):
    file: int
    """Its place in the manifest's ``arrays``."""
    scalar: bool = False
    """A number of numpy's, not an array."""


class TensorNode(Record, frozen=True, kw_only=True, tag="tensor"):
    file: int
    dtype: str
    """torch's name, such as ``bfloat16``, which numpy lacks: the file has integers as wide."""


class StringsNode(Record, frozen=True, kw_only=True, tag="strings"):
    offsets: int
    data: int


class PlainNode(Record, frozen=True, kw_only=True, tag="plain"):
    kind: Literal["none", "bool", "int", "float", "str"]
    text: str
    """Numbers in hexadecimal: JSON has no infinities, and not all integers."""


class ListNode(Record, frozen=True, kw_only=True, tag="list"):
    items: tuple["Node", ...]


class TupleNode(Record, frozen=True, kw_only=True, tag="tuple"):
    items: tuple["Node", ...]


class DictNode(Record, frozen=True, kw_only=True, tag="dict"):
    keys: tuple[PlainNode, ...]
    values: tuple["Node", ...]


Node = ArrayNode | TensorNode | StringsNode | PlainNode | ListNode | TupleNode | DictNode


class CacheManifest(Record, frozen=True, kw_only=True):
    format: int
    key: str
    builder: str
    """The qualified name of the function that built it."""
    created: str
    """In words; nothing is decided by it, since clocks jump."""
    byte_order: str
    versions: dict[str, str]
    """Of Python, numpy, torch and Hasten when it was built."""
    bytes: int
    """Of all array files."""
    arrays: tuple[ArrayFile, ...]
    result: Node
    seal: str
    """Digest of all the rest of this manifest."""


class CacheEntry(Record, frozen=True, kw_only=True):
    key: str
    builder: str
    bytes: int
    """On disk, with its manifest."""
    arrays: int
    created: str
    last_used: str


class CacheComplaint(Record, frozen=True, kw_only=True):
    path: str
    why: str


class CacheListing(Record, frozen=True, kw_only=True):
    """The document of ``hasten cache ls``: entries, the last used first."""

    folder: str
    entries: tuple[CacheEntry, ...]
    bytes: int
    limit_bytes: int
    complaints: tuple[CacheComplaint, ...]
    """What is in the folder and is no entry that can be read; left as it is."""


class CacheVerification(Record, frozen=True, kw_only=True):
    """The document of ``hasten cache verify``."""

    folder: str
    good: int
    bytes: int
    """That were read and had the checksums of their manifests."""
    removed: tuple[CacheComplaint, ...]
    """Entries that were bad."""
    complaints: tuple[CacheComplaint, ...]


class CacheRemoval(Record, frozen=True, kw_only=True):
    """The document of ``hasten cache prune`` and of ``hasten cache clear``."""

    folder: str
    removed: tuple[CacheEntry, ...]
    freed_bytes: int
    """By these and by what killed writers had left."""
    kept: int
    kept_bytes: int
    complaints: tuple[CacheComplaint, ...]
