"""What a project says to the scanner, in its pyproject.toml."""

import msgspec

from hasten.records.record import Record


class ScanSettings(Record, frozen=True, kw_only=True):
    """The table ``[tool.hasten.scan]``. A code is one rule's ("HST201"), the beginning of some
    ("HST2"), or a rule's name."""

    select: tuple[str, ...] = ()
    """What to look for; all that is not noisy where nothing is named."""
    ignore: tuple[str, ...] = ()
    """What not to look for."""
    exclude: tuple[str, ...] = ()
    """Files and folders that are left out, as in a .gitignore beside the pyproject.toml."""
    per_file_ignores: dict[str, tuple[str, ...]] = msgspec.field(
        default_factory=dict, name="per-file-ignores"
    )
    """Codes that are not told in the files of a pattern."""


class HastenTable(Record, frozen=True, kw_only=True):
    """The table ``[tool.hasten]``."""

    scan: ScanSettings = ScanSettings()
