"""Two runs equal to the bit, or an error that names the operation which prevents it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from hasten.errors import HastenError
from hasten.task.load import users_frames

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
SAYS = "does not have a deterministic implementation"


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Only deterministic algorithms while it lasts; the settings before are put back."""
    if not wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    searches, workspace = torch.backends.cudnn.benchmark, os.environ.get(WORKSPACE)
    os.environ.setdefault(WORKSPACE, ":4096:8")  # cuBLAS asks for it
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    except RuntimeError as error:
        if SAYS not in str(error):
            raise
        operation = str(error).split(SAYS)[0].strip()
        raise HastenError(
            f"The training cannot be deterministic: {operation} has no deterministic form here.",
            fix="Use another operation, or train without --deterministic.",
            detail=users_frames(error),
        ) from error
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)
        torch.backends.cudnn.benchmark = searches
        if workspace is None:
            del os.environ[WORKSPACE]
