"""Locks on files, which the kernel takes back when the process that holds them ends."""

import fcntl
import os
import weakref
from pathlib import Path
from typing import Self


class FileLock:
    """One holder at a time, among processes and among threads; use with ``with``.

    Waiting ends with the exception of a signal's handler, such as KeyboardInterrupt. With
    ``passing`` the file goes when the lock is released: locks by the thousand leave nothing.
    """

    def __init__(self, path: Path, *, passing: bool = False) -> None:
        self._path = path
        self._passing = passing
        self._descriptor: int | None = None

    def acquire(self, *, wait: bool = True) -> bool:
        """Whether it is held now; always, where it waits."""
        while True:
            descriptor = os.open(
                self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                if self._is_still_named(descriptor):
                    self._descriptor, descriptor = descriptor, -1
                    _HELD.add(self)
                    return True
            except BlockingIOError:
                return False
            finally:
                if descriptor >= 0:
                    os.close(descriptor)

    def release(self) -> None:
        if self._descriptor is None:
            return
        if self._passing:
            self._path.unlink(missing_ok=True)
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """The lock stays with whoever else has the descriptor, and goes with the last."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_still_named(self, descriptor: int) -> bool:
        """Not so where the holder before removed the file: the lock is then on nothing."""
        try:
            named = self._path.stat(follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(descriptor))

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


_HELD: "weakref.WeakSet[FileLock]" = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_HELD):
        lock.forget()


# A forked child, such as a worker of a loader, would keep the lock after its parent was killed.
os.register_at_fork(after_in_child=_forget_all)
