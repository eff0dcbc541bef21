"""What is not told of some files: what the project says so of, and what rules are silent about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hasten.scan.choice import codes_of
from hasten.scan.files import Excluded
from hasten.scan.patterns import Patterns
from hasten.scan.rule import Rule
from hasten.scan.settings import Project


@dataclass(frozen=True)
class Unwanted:
    paths: Mapping[str, Path]
    """By the names that files are shown by."""
    per_file: Sequence[tuple[frozenset[str], Excluded]]

    @classmethod
    def of(cls, names: Mapping[Path, str], project: Project, rules: Sequence[Rule]) -> "Unwanted":
        said: list[tuple[frozenset[str], tuple[str, ...]]] = [
            (frozenset(codes_of(codes)), (pattern,))
            for pattern, codes in project.settings.per_file_ignores.items()
        ]
        said += [(frozenset((rule.code,)), rule.silent_in) for rule in rules if rule.silent_in]
        return cls(
            {name: path for path, name in names.items()},
            [(codes, Excluded(project.folder, Patterns(patterns))) for codes, patterns in said],
        )

    def covers(self, code: str, name: str) -> bool:
        return any(
            code in codes and which.covers(self.paths[name]) for codes, which in self.per_file
        )
