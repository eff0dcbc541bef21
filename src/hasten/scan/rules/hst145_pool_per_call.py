"""Processes that are started for each call."""

import re
from collections.abc import Iterator
from typing import ClassVar

from hasten.records.scan import Severity
from hasten.scan.heat import Heat
from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule

CALLED_OFTEN = re.compile(
    r"convert|tokeni[sz]e|encode|featur|__call__|embed|sampl|loss|reward|metric|collate|batch|step"
)
ONCE = re.compile(r"^_*(main|run|preprocess|prepare_data|download)|dataset|folder")


class PoolPerCall(Rule):
    code = "HST145"
    name = "pool-made-for-each-call"
    why = (
        "Each call starts processes, which copy or import everything, and ends them again: for few"
        " rows that takes longer than the work."
    )
    instead = (
        "Keep one pool, made when it is first needed, hand what stays the same to its `initializer`"
        " and start none for few rows."
    )
    verify = "Time a call with one row."
    effort = "an hour"
    risk = "a pool that is kept has to be closed"
    calls = ("Pool", "ProcessPoolExecutor", "ThreadPoolExecutor", "ThreadPool")
    least = Heat.ONCE
    severity: ClassVar[Severity | None] = "medium"
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pool

def convert_examples(examples, count):
    with Pool(count) as pool:  # !
        return pool.map(convert_example, examples)

class Reward:
    def __call__(self, texts):
        with ProcessPoolExecutor(max_workers=4) as pool:  # !
            return list(pool.map(score, texts))

def train(model, loader):
    for x in loader:
        with Pool(4) as pool:  # !
            model(pool.map(crop, x)).backward()
""",
        """\
import multiprocessing
from multiprocessing import Pool

class Metric:
    def __init__(self, count):
        self.pool = Pool(count)

def preprocess_dataset(paths, count):
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        return pool.map(convert, paths)
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        name = site.function.last_name
        often = CALLED_OFTEN.search(name) is not None and not ONCE.search(name)
        if often or look.local(site).known >= Heat.EPOCH:
            yield Found(site.node, "these processes are started for each call, and ended after it")
