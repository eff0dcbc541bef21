"""Fixes files: only those that were given, only if they are still as they were read, whole or not
at all, and with every byte that no fix touches. Several can be fixed all or none."""

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hasten.errors import HastenError
from hasten.host.files import write_atomically
from hasten.records.scan import AppliedFix, CodeFinding, FixReport
from hasten.scan.fixing import Fixed, Look, allowed, by_path, fix_texts, ready
from hasten.scan.patch import difference
from hasten.scan.reading import decode, encoding_of

CHANGED = "it has changed since it was read"


@dataclass(frozen=True)
class Source:
    """A file as it was read."""

    path: Path
    content: bytes
    encoding: str
    text: str

    @classmethod
    def of(cls, path: Path, content: bytes) -> "Source":
        """Of a file that can be decoded."""
        return cls(path, content, encoding_of(content), decode(content))

    def holding(self, text: str) -> bytes | None:
        """The bytes of another text; None where the encoding has none for it, or would also change
        what is not touched."""
        try:
            if self.text.encode(self.encoding) != self.content:
                return None
            return text.encode(self.encoding)
        except UnicodeEncodeError:
            return None


def fix_files(
    sources: Mapping[str, Source],
    findings: Sequence[CodeFinding],
    look: Look,
    roots: Sequence[Path],
    refused: Mapping[str, str],
    *,
    unsafe: bool = False,
    write: bool = True,
) -> FixReport:
    """``sources`` are files that were scanned, by the paths of their findings; ``roots`` are what
    may be written in; ``refused`` are files that are not to be fixed, with the reason."""
    texts = {path: each.text for path, each in sources.items()}
    fixed = fix_texts(texts, findings, look, unsafe=unsafe)
    refused = {**refused, **fixed.refused}
    for path, text in fixed.texts.items():
        why = put(sources[path], text, roots, write=write)
        if why:
            refused[path] = why
    undone = {path: texts[path] for path in fixed.texts if path in refused}
    fixed.left = look(undone) if undone else fixed.left
    return fix_report(sources, fixed, refused, unsafe=unsafe, write=write)


def fix_report(
    sources: Mapping[str, Source],
    fixed: Fixed,
    refused: Mapping[str, str],
    *,
    unsafe: bool,
    write: bool,
) -> FixReport:
    left = tuple(fixed.left)
    unsafe_ones = 0 if unsafe else _count(left, unsafe=True) - _count(left, unsafe=False)
    return FixReport(
        fixed=tuple(applied(each) for each in fixed.findings if each.path not in refused),
        differences={
            path: difference(path, sources[path].text, text)
            for path, text in sorted(fixed.texts.items())
            if path not in refused
        },
        refused=dict(refused),
        written=write,
        unsafe=unsafe_ones,
        held_back=sum(ready(found, allowed(unsafe=unsafe))[1] for found in by_path(left).values()),
        left=left,
    )


def put_all(
    sources: Mapping[str, Source], texts: Mapping[str, str], roots: Sequence[Path]
) -> dict[str, str]:
    """Writes all of the texts or none; says why not. What ends it halfway leaves none written."""
    reasons = {path: put(sources[path], text, roots, write=False) for path, text in texts.items()}
    refused = {path: why for path, why in reasons.items() if why}
    if refused:
        return refused
    begun: list[str] = []
    done = False
    try:
        for path, text in texts.items():
            begun.append(path)
            why = put(sources[path], text, roots, write=True)
            if why:
                return {path: why}
        done = True
    finally:
        for path in begun if not done else ():
            _put_back(sources[path], texts[path])
    return {}


def _count(findings: Sequence[CodeFinding], *, unsafe: bool) -> int:
    return sum(
        len(group)
        for found in by_path(findings).values()
        for group in ready(found, allowed(unsafe=unsafe))[0]
    )


def applied(finding: CodeFinding) -> AppliedFix:
    assert finding.fix is not None
    return AppliedFix(
        code=finding.code,
        path=finding.path,
        line=finding.line,
        safety=finding.fix.safety,
        about=finding.fix.about,
    )


def put(source: Source, text: str, roots: Sequence[Path], *, write: bool) -> str:
    """Writes, or says why not."""
    content = source.holding(text)
    if content is None:
        return f"its encoding, {source.encoding}, does not give back the same bytes"
    try:
        why = _refusal(source, roots)
        if why or not write:
            return why
        _write(source.path, content)
    except OSError as error:
        return f"it cannot be written: {error.strerror or error}"
    return ""


def _put_back(source: Source, text: str) -> None:
    """In place of what we have written; what somebody else has put there since is theirs."""
    try:
        if source.path.read_bytes() == source.holding(text):
            _write(source.path, source.content)
    except OSError as error:
        raise HastenError(
            f"{source.path} could not be put back as it was: {error.strerror or error}.",
            fix="It may hold fixes that were not to be kept: compare it with a version of before.",
        ) from error


def _write(path: Path, content: bytes) -> None:
    """With the mode and the owner that the file has."""
    about = path.stat()
    write_atomically(path, content, stat.S_IMODE(about.st_mode), (about.st_uid, about.st_gid))


def _refusal(source: Source, roots: Sequence[Path]) -> str:
    path = source.path
    if path.is_symlink():
        return "it is a symbolic link"
    whole = path.resolve(strict=True)
    if not any(whole.is_relative_to(root.resolve()) for root in roots):
        return "it lies outside of what was given"
    if not os.access(path, os.W_OK) or not path.stat().st_mode & stat.S_IWUSR:
        return "it is read-only"
    if path.stat().st_nlink > 1:
        return "it has other names (hard links), which would keep the old text"
    if path.read_bytes() != source.content:
        return CHANGED
    return ""
