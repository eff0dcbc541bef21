"""The settings of the project that some paths belong to."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hasten.errors import HastenError
from hasten.records.record import from_builtins, parse_toml
from hasten.records.scan_settings import HastenTable, ScanSettings
from hasten.scan.choice import codes_of

FILE = "pyproject.toml"
TABLE = "tool.hasten"
DEFAULTS = ScanSettings()


@dataclass(frozen=True)
class Project:
    """``folder`` is what its patterns are relative to."""

    folder: Path
    settings: ScanSettings = DEFAULTS


def project_of(paths: Sequence[Path]) -> Project:
    """By the nearest pyproject.toml in or above the folder that holds all paths."""
    whole = [os.path.abspath(path) for path in paths]  # noqa: PTH100  # without ".." in them
    common = Path(os.path.commonpath(whole))
    for folder in (common, *common.parents):
        file = folder / FILE
        if file.is_file():
            return Project(folder, read_settings(file))
    return Project(common if common.is_dir() else common.parent)


def read_settings(file: Path) -> ScanSettings:
    """Of a pyproject.toml. A key or a rule that nobody knows is an error."""
    where = str(file)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fix = "Write the file anew, or make it readable."
        raise HastenError(f"{where} cannot be read: {error}.", fix=fix) from error
    table = parse_toml(text, where=where).get("tool", {})
    raw = table.get("hasten", {}) if isinstance(table, dict) else {}
    settings = from_builtins(raw, HastenTable, where=where, path=TABLE).scan
    for key, codes in _named(settings):
        codes_of(codes, where=f"{where}: {TABLE}.scan.{key}")
    return settings


def _named(settings: ScanSettings) -> list[tuple[str, tuple[str, ...]]]:
    """Every list of codes, by its key."""
    per_file = settings.per_file_ignores.items()
    return [
        ("select", settings.select),
        ("ignore", settings.ignore),
        *((f"per-file-ignores.{pattern!r}", codes) for pattern, codes in per_file),
    ]
