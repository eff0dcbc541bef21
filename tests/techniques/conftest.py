"""What tests of compiling share."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend


@pytest.fixture
def forget_compiled_code() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> CompileCounterWithBackend:
    """All of torch.compile but its slow last stage; counts the graphs and how often they ran."""
    counter, compile_for_real = CompileCounterWithBackend("aot_eager"), torch.compile

    def compile_and_count(function: Any, **options: Any) -> Any:
        return compile_for_real(function, backend=counter)

    monkeypatch.setattr(torch, "compile", compile_and_count)
    return counter
