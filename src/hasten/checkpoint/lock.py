"""One writer per folder, held by a lock that the kernel takes back when the process ends."""

import fcntl
import os
import socket
import weakref
from pathlib import Path

from hasten.errors import HastenError


class FolderLock:
    """Held from the moment it is made until ``release``."""

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644
        )
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()} on {socket.gethostname()}\n".encode())
        except BlockingIOError as error:
            holder = os.read(self._descriptor, 200).decode("ascii", "backslashreplace").strip()
            self.forget()
            raise HastenError(
                f"Another run writes its checkpoints to {path.parent} (process {holder!a}).",
                fix="Wait until it has ended, or choose another folder.",
            ) from error
        except BaseException:
            self.forget()
            raise
        _HELD.add(self)

    def release(self) -> None:
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """The lock stays with whoever else has the descriptor, and goes with the last."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_HELD: "weakref.WeakSet[FolderLock]" = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_HELD):
        lock.forget()


# A forked child, such as a worker of a loader, would keep the lock after its parent was killed.
os.register_at_fork(after_in_child=_forget_all)
