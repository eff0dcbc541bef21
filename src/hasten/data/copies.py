"""Work done in a copy of this process, so that nothing of it is left behind here.

Only where processes can fork. The copy has one thread and must not touch a device.
"""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import torch

from hasten.errors import in_a_line
from hasten.task.traits import ORDINARY_ERRORS

T = TypeVar("T")


class CopyFailed(Exception):  # noqa: N818  # an answer like another: what was asked is not known
    """Says in words what became of the copy."""


def can_copy() -> bool:
    return "fork" in multiprocessing.get_all_start_methods()


def in_a_copy(work: Callable[[], T], limit_s: float) -> T:
    """What ``work`` returns there; raises CopyFailed after ``limit_s``, or where it raises."""
    if not can_copy():
        raise CopyFailed("processes cannot fork on this system")
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    copy = context.Process(target=_do, args=(work, sending), daemon=True)
    copy.start()
    sending.close()
    try:
        return _answer(receiving, copy, limit_s)  # type: ignore[no-any-return]
    finally:
        copy.kill()  # it has answered, or never will
        copy.join()
        copy.close()
        receiving.close()


def _answer(receiving: Connection, copy: Any, limit_s: float) -> Any:
    if not receiving.poll(max(limit_s, 0.0)):
        raise CopyFailed(f"it gave no answer in {limit_s:.0f} s")
    try:
        value, error = receiving.recv()
    except EOFError:
        copy.join()
        code = copy.exitcode
        how = f"by signal {-code}" if code and code < 0 else f"with exit code {code}"
        raise CopyFailed(f"it ended {how}") from None
    if error is not None:
        raise CopyFailed(error)
    return value


def _do(work: Callable[[], Any], sending: Connection) -> None:
    torch.set_num_threads(1)  # those of the parent are not here
    try:
        sending.send((work(), None))
    except ORDINARY_ERRORS as error:
        sending.send((None, f"{type(error).__name__}: {in_a_line(str(error))}"))
