"""Named ranges around the parts of a step, as torch's profiler sees them.

The step itself calls its parts as ever; a part that a technique does by other means, such as all of
them in one captured graph, has no range.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._C._profiler import _RecordFunctionFast as Range

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


@contextmanager
def ranges(run: Run) -> Iterator[None]:
    """Each part of the steps inside is in its range."""
    own = vars(run.eager)
    own.update({name: _in_range(getattr(run.eager, name), PARTS[name]) for name in PARTS})
    try:
        yield
    finally:
        for name in PARTS:
            del own[name]


def _in_range(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with Range(name):
            return method(*arguments)

    return call
