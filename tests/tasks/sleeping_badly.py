"""The training that sleeps, and techniques that wake it and are wrong, or that take their process
down with them, each in its own way."""

import os
import re
import resource
import signal
import time
from pathlib import Path

import torch
from sleeping import register
from sleeping import sleeps as sleeps

import hasten

STEPS_BEFORE = 4
"""Within the warm-up, after the first step has been trusted."""


@torch.no_grad()
def _flip(pipeline: hasten.Pipeline, bit: int) -> None:
    next(pipeline.model.parameters()).view(torch.int32).view(-1)[3] ^= 1 << bit


def _bit_before(pipeline: hasten.Pipeline, step: int) -> None:
    if step == 0:
        _flip(pipeline, 0)


def _exponent_later(pipeline: hasten.Pipeline, step: int) -> None:
    if step == 2:
        _flip(pipeline, 23)


def _memory(pipeline: hasten.Pipeline, step: int) -> None:
    """Under a limit that leaves room for little more than what is there."""
    if step > STEPS_BEFORE:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + 2**28
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        torch.empty(2**30)


def _killed(pipeline: hasten.Pipeline, step: int) -> None:
    if step > STEPS_BEFORE:
        os.kill(os.getpid(), signal.SIGKILL)


def _raises(pipeline: hasten.Pipeline, step: int) -> None:
    if step:
        raise RuntimeError("no code could be generated")


def _prepares_for_ever(pipeline: hasten.Pipeline, step: int) -> None:
    if step:
        time.sleep(3600)


def _hangs_with_the_lock(pipeline: hasten.Pipeline, step: int) -> None:
    """A regular expression that backtracks for years, and lets no other thread run."""
    if step:
        re.match(r"(a+)+$", 64 * "a" + "b")


register("bit_flipped_before", _bit_before)
register("exponent_flipped_later", _exponent_later)
register("eats_memory", _memory)
register("killed", _killed)
register("raises", _raises)
register("prepares_for_ever", _prepares_for_ever)
register("hangs_with_the_lock", _hangs_with_the_lock)
