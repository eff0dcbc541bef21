"""One writer of checkpoints per folder."""

import os
import socket
from pathlib import Path

from hasten.errors import HastenError
from hasten.host.lock import FileLock


class FolderLock(FileLock):
    """Held from the moment it is made until ``release``."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if not self.acquire(wait=False):
            with path.open("rb") as file:
                holder = file.read(200).decode("ascii", "backslashreplace").strip()
            raise HastenError(
                f"Another run writes its checkpoints to {path.parent} (process {holder!a}).",
                fix="Wait until it has ended, or choose another folder.",
            )
        try:
            self.write(f"{os.getpid()} on {socket.gethostname()}\n")
        except BaseException:
            self.forget()
            raise
