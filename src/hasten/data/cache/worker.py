"""A process that builds parts, started as ``python -m hasten.data.cache.worker DESCRIPTOR``.

It runs none of the user's script, only the module that the function is from.
"""

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from hasten.host.forked import die_with


class Failure:
    """An exception of a part, in words: itself it might not come through a pipe."""

    def __init__(self, error: BaseException) -> None:
        self.kind = type(error).__qualname__
        self.message = str(error)
        self.detail = "".join(traceback.format_exception(error))


def work(connection: "Connection[Any, Any]") -> None:
    """Receives where modules are, the function with its further arguments, then parts. Answers
    each part with the result, or a Failure, and the global random generators drawn from."""
    sys.path[:] = connection.recv()
    function = connection.recv_bytes()
    called = _attempt(lambda: pickle.loads(function))
    from hasten.data.cache.randomness import GlobalGenerators

    while True:
        try:
            content = connection.recv_bytes()
        except EOFError:
            return
        generators = GlobalGenerators()
        answer = called if isinstance(called, Failure) else _attempt(lambda: _call(called, content))  # noqa: B023
        drawn = generators.drawn_from()
        packed = _attempt(lambda: pickle.dumps((answer, drawn), protocol=5))  # noqa: B023
        if isinstance(packed, Failure):
            packed = pickle.dumps((packed, drawn))
        connection.send_bytes(packed)


def _call(called: tuple[Callable[..., Any], tuple[Any, ...]], content: bytes) -> Any:
    function, args = called
    return function(pickle.loads(content), *args)


def _attempt(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises, the parent tells
        return Failure(error)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    die_with(os.getppid())
    from hasten.data.cache import worker  # by the name that the parent knows Failure by

    worker.work(Connection(int(sys.argv[1])))
