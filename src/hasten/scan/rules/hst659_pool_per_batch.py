"""A pool of threads or processes for each batch."""

from collections.abc import Iterator
from typing import ClassVar

from hasten.scan.look import Look
from hasten.scan.outline import Site
from hasten.scan.rule import Found, Rule


class PoolPerBatch(Rule):
    code = "HST659"
    name = "pool-per-batch"
    why = (
        "Threads or processes are started and ended for every batch; starting processes takes"
        " longer than most batches."
    )
    instead = "Make one pool before the loop and keep it, or let the loader's workers do it."
    verify = "Measure the time of an epoch with both."
    calls = ("Pool", "ThreadPool", "ThreadPoolExecutor", "ProcessPoolExecutor")
    needs_torch = False
    examples: ClassVar[tuple[str, ...]] = (
        """\
import torch
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pool

def train(model, loader, optimizer, decode):
    for paths in loader:
        with ThreadPoolExecutor(max_workers=8) as pool:  # !
            images = list(pool.map(decode, paths))
        model(torch.stack(images)).backward()
        optimizer.step()

def collate_fn(samples):
    pool = Pool(4)  # !
    return pool.map(len, samples)
""",
        """\
import concurrent.futures
import torch
from torch.utils.data import Dataset

class Images(Dataset):
    def __getitems__(self, indices):
        with concurrent.futures.ThreadPoolExecutor() as pool:  # !
            return list(pool.map(self.read, indices))
""",
        """\
import torch
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pool

class Images(torch.utils.data.Dataset):
    def __init__(self):
        self.pool = ThreadPoolExecutor(8)

    def __getitem__(self, index):
        return self.pool.submit(self.read, index).result()

def prepare(paths, decode):
    with Pool(4) as pool:
        return pool.map(decode, paths)

def train(model, loader, decode):
    with ThreadPoolExecutor() as pool:
        for paths in loader:
            model(torch.stack(list(pool.map(decode, paths)))).backward()
""",
    )

    def check(self, site: Site, look: Look) -> Iterator[Found]:
        called = look.source(site.node.func)
        yield Found(site.node, f"`{called}` starts workers for every batch", assumes=False)
