"""Something around each part of a step, such as a named range of torch's profiler or a mark.

The step itself calls its parts as ever; a part that a technique does by other means, such as all of
them in one captured graph, has no range.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from hasten.runtime.run import Run

DATA = "data"
PARTS = {
    "transfer": "transfer",
    "zero_grad": "optimizer",
    "forward": "forward",
    "backward": "backward",
    "update_weights": "optimizer",
}
"""What the step calls, and the range that it is in."""


Method = Callable[..., Any]
Range = Callable[[str], AbstractContextManager[Any]]
"""torch has two: ``record_function``, which traces show well, and a faster one, which is no
operation and so unseen by dispatch modes."""


def ranges(run: Run, make: Range) -> AbstractContextManager[None]:
    """Each part of the steps inside is in a range of its own."""

    def wrap(name: str, method: Method) -> Method:
        def call(*arguments: Any) -> Any:
            with make(PARTS[name]):
                return method(*arguments)

        return call

    return wrapped_parts(run, wrap)


@contextmanager
def wrapped_parts(run: Run, wrap: Callable[[str, Method], Method]) -> Iterator[None]:
    """``wrap`` is given each method that the step calls, with its name."""
    own = vars(run.eager)
    own.update({name: wrap(name, getattr(run.eager, name)) for name in PARTS})
    try:
        yield
    finally:
        for name in PARTS:
            del own[name]
