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
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        while True:
            self._descriptor = os.open(self._path, flags, 0o644)
            _OPEN.add(self)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                if self._is_still_named(self._descriptor):
                    return True
            except BlockingIOError:
                self.forget()
                return False
            except BaseException:
                self.forget()
                raise
            self._let_go()

    def release(self) -> None:
        if self._descriptor is None:
            return
        if self._passing:
            self._path.unlink(missing_ok=True)
        self._let_go()

    def write(self, text: str) -> None:
        """Into the file, for whoever finds it held; while it is held here."""
        assert self._descriptor is not None
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, text.encode())

    def _let_go(self) -> None:
        """Said, and not only closed: a forked child may have the descriptor too."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """Close it: the lock stays with whoever else has the descriptor, and goes with the last."""
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


_OPEN: "weakref.WeakSet[FileLock]" = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_OPEN):
        lock.forget()


# A forked child, such as a worker of a loader, would keep the lock after its parent was killed.
os.register_at_fork(after_in_child=_forget_all)
