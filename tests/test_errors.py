"""Errors of others in a line."""

import pytest

from hasten.errors import in_a_line

ANNOUNCED = """InductorError: SubprocException: An exception occurred in a subprocess:

Traceback (most recent call last):
  File "worker.py", line 457, in do_job
    result = job()
triton.compiler.errors.CompilationError: at 37:27:
    tmp10 = tmp8 * tmp9
ValueError('Scalar 2654435761 is out of range')

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""
IT_FAILED = "it failed: torch._dynamo.exc.Unsupported: a call"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("", ""),
        ("it broke", "it broke"),
        ("it broke\nTypeError: there", "it broke"),
        ("two things:\nthe one\nthe other", "two things:"),
        ("\n\nit broke", "it broke"),
        ("it failed: \n  inside\ntorch._dynamo.exc.Unsupported: a call", IT_FAILED),
        ("it failed:\nOSError\nException ignored in: <file>", "it failed: OSError"),
        ("it failed:\nCompilationError: at 37:27:\n  tmp10", "it failed:"),
        (
            ANNOUNCED,
            "InductorError: SubprocException: An exception occurred in a subprocess: "
            "ValueError('Scalar 2654435761 is out of range')",
        ),
    ],
)
def test_the_line_that_says_what_is_wrong(message: str, line: str) -> None:
    assert in_a_line(message) == line
