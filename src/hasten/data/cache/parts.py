"""A builder that maps over parts, in as many processes as there are cores."""

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from hasten.data.cache.worker import Failure
from hasten.data.strings import Strings
from hasten.errors import HastenError
from hasten.host.cores import cores_allowed

Progress = Callable[[int, int], None]
"""Told how many parts are done, and of how many."""
ONE_CORE = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Parts:
    """One building of them. ``drawn`` names the global random generators that were drawn from."""

    def __init__(
        self, function: Callable[..., Any], parts: Sequence[Any], args: tuple[Any, ...]
    ) -> None:
        self._function = function
        self.parts = parts
        self._args = args
        self.drawn: set[str] = set()

    def why_in_process(self) -> str | None:
        """Why other processes could not build them; None where they can."""
        try:
            packed = pickle.dumps((self._function, self._args, list(self.parts)))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            return f"it cannot be sent to other processes ({error})"
        if b"__main__" in packed:
            return "it is from the script, which other processes do not run: put it into a module"
        return None

    def build(self, workers: int | None, progress: Progress | None) -> list[Any]:
        """In order. ``workers`` is how many processes; the cores that are allowed if None."""
        tell = progress or (lambda done, total: None)
        count = min(workers or max(1, int(cores_allowed())), len(self.parts))
        if count <= 1:
            return self._build_here(tell)
        crew: list[_Member] = []
        try:
            for _ in range(count):
                crew.append(_Member())
                crew[-1].tell(self._function, self._args)
            return self._collect(crew, tell)
        finally:
            for member in crew:
                member.end()

    def _build_here(self, tell: Progress) -> list[Any]:
        results = []
        for done, part in enumerate(self.parts):
            tell(done, len(self.parts))
            results.append(self._function(part, *self._args))
        tell(len(self.parts), len(self.parts))
        return results

    def _collect(self, crew: list["_Member"], tell: Progress) -> list[Any]:
        total = len(self.parts)
        results: dict[int, Any] = {}
        waiting = iter(range(total))
        for member in crew:
            self._give(member, next(waiting))
        tell(0, total)
        while len(results) < total:
            ready = wait([member.connection for member in crew if member.part is not None])
            for member in crew:
                if member.connection in ready and member.part is not None:
                    results[member.part] = self._receive(member)
                    tell(len(results), total)
                    self._give(member, next(waiting, None))
        return [results[place] for place in range(total)]

    def _give(self, member: "_Member", place: int | None) -> None:
        member.part = place
        if place is not None:
            content = pickle.dumps(self.parts[place], protocol=5)
            member.send(content)

    def _receive(self, member: "_Member") -> Any:
        assert member.part is not None
        name = f"Part {member.part} ({self.parts[member.part]!r:.80})"
        try:
            answer, drawn = pickle.loads(member.connection.recv_bytes())
        except (EOFError, ConnectionError) as error:
            raise HastenError(
                f"{name} was not built: its process {member.how_it_ended()}.",
                fix="If memory ran out, use fewer workers or smaller parts.",
            ) from error
        if isinstance(answer, Failure):
            raise HastenError(
                f"{name} was not built: {answer.kind}: {answer.message}",
                fix="What it raised is above.",
                detail=answer.detail,
            )
        self.drawn.update(drawn)
        return answer


class _Member:
    """A process, and the part that it builds."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                # -P: not a module that lies in the folder where we happen to be.
                [sys.executable, "-P", "-m", "hasten.data.cache.worker", str(its.fileno())],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                process_group=0,  # ended by us, not by a Ctrl-C that reaches it too
                env={**os.environ, **_module_path(), **dict.fromkeys(ONE_CORE, "1")},
            )
        self.connection: Connection[Any, Any] = Connection(ours.detach())
        self.part: int | None = None

    def tell(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.send(pickle.dumps(sys.path))
        self.send(pickle.dumps((function, args), protocol=5))

    def send(self, content: bytes) -> None:
        with suppress(ConnectionError):  # it has ended, which receiving will tell
            self.connection.send_bytes(content)

    def how_it_ended(self) -> str:
        code = self._process.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"

    def end(self) -> None:
        self.connection.close()
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _module_path() -> dict[str, str]:
    """The process must find us before it can be told where other modules are."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def join(results: list[Any], where: str = "what each part gave") -> Any:
    """One after the other along the first axis; dicts and tuples value by value."""
    kinds = {type(each) for each in results}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is not None and issubclass(kind, np.ndarray):
        return np.concatenate(results)
    if kind is Strings:
        return Strings.joined(results)
    if kind is list:
        return [item for each in results for item in each]
    if kind is tuple and len({len(each) for each in results}) == 1:
        columns = zip(*results, strict=True)
        return tuple(join(list(each), f"{where}[{place}]") for place, each in enumerate(columns))
    if kind is dict and all(each.keys() == results[0].keys() for each in results):
        return {
            key: join([each[key] for each in results], f"{where}[{key!r:.40}]")
            for key in results[0]
        }
    if (
        kind is not None
        and "torch" in sys.modules
        and issubclass(kind, sys.modules["torch"].Tensor)
    ):
        return sys.modules["torch"].cat(results)
    names = ", ".join(sorted({type(each).__name__ for each in results}))
    raise HastenError(
        f"{where} cannot be joined: {names}.",
        fix="Return arrays, or dicts of the same arrays, from each part, or join=False.",
    )
